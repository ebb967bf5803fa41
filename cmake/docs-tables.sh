#!/bin/sh
# docs-tables.sh TABLE [TYPE...]: the tables in docs/mul-mat.md, docs/spread.md, docs/gpu.md and docs/environment.md, made from what the tools
# print. docs.sh runs it, with the tools in PATH; a page says which table stands where. Figures are modelled,
# so that they are the same on every machine.
# It ends with 77 and the reason where something that a table wants is missing.
set -eu
export LC_ALL=C
unset GGML_HSA_EMULATE

heading() { # words of the first row
    printf '|'
    for word in "$@"; do printf ' %s |' "$word"; done
    printf '\n|'
    for word in "$@"; do printf ' --- |'; done
    printf '\n'
}

thousands() { sed -e ':a' -e 's/\([0-9]\)\([0-9]\{3\}\)\($\|[^0-9]\)/\1,\2\3/;ta'; }

# Of bench-mul-mat's row: cycles on the device, or the share of what host memory gives.
product() { # arch type m n k field, counted from the cycles on `ideal`
    bench-mul-mat "$1" "$2" "$3" "$4" "$5" |
        awk -v type="$2" -v field="$6" '$1 == type && $5 ~ /^gem/ {
            gsub(/ %/, "")
            print $(5 + field)
            found = 1
        } END { exit !found }'
}
DEVICE=5 MEMORY=8 # ideal, %, no bound, %, device, %, streams, memory

one_row() { # types: 4096 x 4096 by one row
    heading '' "$@"
    for arch in aie2:phoenix aie2p:strix; do
        cycles='' share=''
        for type in "$@"; do
            cycles="$cycles $(product "${arch%:*}" "$type" 4096 1 4096 $DEVICE | thousands) |"
            share="$share $(product "${arch%:*}" "$type" 4096 1 4096 $MEMORY | awk '{printf "%.0f", $1}') % |"
        done
        echo "| ${arch%:*}, clock \`${arch#*:}\`: cycles |$cycles"
        echo "| of what host memory takes |$share"
    done
}

small() { # types: what smaller products reach
    heading '' "$@"
    for arch in aie2 aie2p; do
        before="$arch, "
        for shape in '8192 2048' '2048 2048' '512 2048' '896 896'; do
            m=${shape% *} k=${shape#* } row=''
            for type in "$@"; do
                case $type-$((k % 256)) in # blocks of 256 numbers
                q?_K-0 | q4_0-* | q8_0-* | bf16-*) share=$(product $arch "$type" "$m" 1 "$k" $MEMORY | awk '{printf "%.0f", $1}') ;;
                *) share=- ;;
                esac
                row="$row $share |"
            done
            echo "| $before$m x $k |$row"
            before=
        done
    done
}

# type m n k, in % of what the multipliers could do, and where the time goes without a bound of host memory.
bounds() { # arch clock 'type m n k'...
    arch=$1 clock=$2
    shift 2
    if [ "$arch" = aie2 ]; then
        heading '' 'clock `ideal`' "\`$clock,ddr=0\`" "\`$clock\`" 'where the time goes with `ddr=0`: core, bank, lock, stream, start-up, control'
    else
        heading '' "\`$clock,ddr=0\`" "\`$clock\`" 'core, bank, lock, stream, start-up, control'
    fi
    for shape in "$@"; do
        # shellcheck disable=SC2086
        bench-mul-mat "$arch" $shape | awk -v shape="$shape" -v arch="$arch" '
        BEGIN { split(shape, s, " ") }
        $1 == s[1] && $5 ~ /^gem/ {
            gsub(/ %/, "")
            printf "| %s %s x %s x %s |", s[1], s[2], s[3], s[4]
            if (arch == "aie2") printf " %s |", $7
            printf " %s | %s | %s, %s, %s, %s, %s, %s |\n", $9, $11, $15, $16, $17, $18, $19, $21
        }'
    done
}

unpack() { # 2048 x 2048 blocks to bf16
    heading '' q4_0 q8_0 q4_K q5_K q6_K iq4_nl mxfp4
    for arch in aie2:phoenix aie2p:strix; do
        test-unpack "${arch%:*}" whole 2>&1 | awk -v name="${arch%:*}, clock \`${arch#*:}\`" '
        / 2048 x 2048/ { for (i = 2; i <= NF; i++) if ($i == "cycles") value[$1] = $(i - 1) }
        END {
            printf "| %s |", name
            n = split("q4_0 q8_0 q4_K q5_K q6_K iq4_nl mxfp4", types, " ")
            for (i = 1; i <= n; i++) printf " %s |", value[types[i]]
            print ""
        }' | thousands
    done
}

# Cycles for a word of the first input and column, of a million elements.
words() {
    heading op cycles
    while read -r op type shape columns name; do
        cycles=$(ggml-hsa bench "$op" "$type" "$shape" | sed -n 's/^ *array *\([0-9,]*\) cycles/\1/p' | tr -d ,)
        words=$(echo "$shape $type" | awk '{split($1, s, "x"); print s[1] * s[2] / ($2 == "f32" ? 1 : 2)}')
        echo "$cycles $words $columns" | awk -v name="$name" '{printf "| %s | %.1f |\n", name, $1 * $3 / $2}'
    done <<END
ADD f32 1024x1024 4 ADD f32
ADD f16 1024x1024 4 ADD f16
SILU f32 1024x1024 4 SILU f32
SWIGLU f32 1024x1024 4 SWIGLU f32
SOFT_MAX f32 1024x1024 4 SOFT_MAX f32, rows of 1,024
SOFT_MAX f32 2050x512 4 SOFT_MAX f32, rows of 2,050
RMS_NORM f32 1024x1024 4 RMS_NORM f32, rows of 1,024
RMS_NORM f32 2050x512 4 RMS_NORM f32, rows of 2,050
END
}

# What stays in the array, in a model and in the digits.
layer() {
    [ -e .deps/mnist/t10k-images-idx3-ubyte ] || { echo "no digits in .deps/mnist" >&2; exit 77; }
    [ -e stories260K.gguf ] || { echo "no stories260K.gguf" >&2; exit 77; }
    heading '' kernels 'PDIs loaded' ms
    ggml-hsa model stories260K.gguf --context 64 | awk '
        $1 == "kernels" { kernels = $2; for (i = 1; i < NF; i++) if ($(i + 1) == "PDIs") pdis = $i }
        $1 == "time" { printf "| stories260K, a token at a context of 64 | %s | %s | %.1f |\n", kernels, pdis, $2 }'
    GGML_HSA_EMULATE=aie2 GGML_HSA_PROFILE=1 mnist-eval --limit 1000 2>&1 >/dev/null | awk '
        $1 == "op" { for (i = 1; i <= NF; i++) if ($i == "PDIs") behind = NF - i - 1 } # "% short" is two words
        $1 == "total" { printf "| MNIST, two batches of 1,000 digits | %s | %s | %.1f |\n", $3, $(NF - behind), $4 }'
}

# From two lines for each variable: NAME=what it takes, and what for.
environment() {
    heading variable takes meaning
    ggml-hsa help environment | sed 's/|/\\|/g' | awk '
        /^[A-Z]/ { name = $0; sub(/=.*/, "", name); takes = substr($0, length(name) + 2); next }
        { sub(/^ */, ""); printf "| `%s` | %s | %s |\n", name, takes, $0 }'
}

# What code objects say of kernels. How many waves a SIMD holds follows from registers and LDS of the chip: a
# gfx9 has 512 registers for a lane, given out by 8, in four SIMDs that share 64 KiB of LDS; a gfx11 1536, by 24,
# in four that share 128 KiB. Groups are of 256 work-items.
gpu_kernels() { # arch FILE.co kernels...: a row for each of the kernels
    arch=$1 code=$2
    shift 2
    { llvm-readelf-19 --notes "$code" && llvm-objdump-19 -d "$code"; } | awk -v arch="$arch" -v wanted="$*" '
    function most(width) { return width > 0 ? width : "-" }
    function least(a, b) { return a < b ? a : b }
    function bytes(op) { # that one load gives a lane
        return op ~ /x4|128/ ? 16 : op ~ /x3|96/ ? 12 : op ~ /x2|64/ ? 8 : op ~ /byte|8$|_[ui]8/ ? 1 : op ~ /short|16/ ? 2 : 4
    }
    $1 == ".group_segment_fixed_size:" { held = $2 }
    $1 == ".name:" && $2 ~ /_/ { kernel = $2; lds[kernel] = held }
    $1 == ".sgpr_count:" { sgprs[kernel] = $2 }
    $1 == ".vgpr_count:" { vgprs[kernel] = $2 }
    /^[0-9a-f]+ <.*>:$/ { kernel = substr($2, 2, length($2) - 3) }
    $1 ~ /^global_load/ && bytes($1) > load[kernel] { load[kernel] = bytes($1) }
    $1 ~ /^ds_(read|load)/ && bytes($1) > shared[kernel] { shared[kernel] = bytes($1) }
    $1 ~ /^v_(mfma|wmma)/ { matrix[kernel]++ }
    $1 ~ /^v_dot/ { dots[kernel]++ }
    END {
        n = split(wanted, kernels, " ")
        for (i = 1; i <= n; i++) {
            k = kernels[i]
            if (!(k in vgprs)) { print "no kernel " k > "/dev/stderr"; exit 1 }
            narrow = arch ~ /^gfx11/
            unit = narrow ? 24 : 8
            waves = int((narrow ? 1536 : 512) / (int((vgprs[k] + unit - 1) / unit) * unit))
            waves = least(waves, narrow ? 16 : 8)
            groups = lds[k] ? int((narrow ? 131072 : 65536) / lds[k]) : 99
            waves = least(waves, groups * (narrow ? 2 : 1)) # of a group on each SIMD
            printf "| %s | %s | %s | %s | %d | %d | %d | %d | %d | %d |\n", k, arch, most(load[k]), most(shared[k]),
                matrix[k], dots[k], vgprs[k], sgprs[k], lds[k], waves
        }
    }'
}

gpu() {
    for tool in clang++-19 ld.lld-19 llvm-readelf-19 llvm-objdump-19; do
        command -v $tool >/dev/null || { echo "no $tool" >&2; exit 77; }
    done
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    heading kernel GPU 'bytes a lane and load' 'and from LDS' 'matrix instructions' 'dot instructions' VGPRs SGPRs LDS 'waves on a SIMD'
    while read -r module kernels; do
        for arch in gfx90a gfx942 gfx1100; do
            CANDLE_ROCM_VERSION=0 CANDLE_ROCM_CACHE_DIR=$made/cache rocm-kernels compile "$module" --arch $arch \
                --compiler clang --output-dir "$made" >"$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
            # shellcheck disable=SC2086
            gpu_kernels $arch "$made/$arch/$module.co" $kernels
        done
    done <<END
matmul_f32 matmul_f32 matvec_f16_f32
matmul_wide_f32 matmul_wide_f32
matrix_f32 matmul_matrix_f16_f32 matmul_matrix_bf16_f32
matrix_wide_f32 matmul_matrix_wide_f16_f32 matmul_matrix_wide_bf16_f32
matrix_q4 matmul_matrix_q4_0_f32
matrix_wide_q4 matmul_matrix_wide_q4_0_f32
matrix_wide_q8 matmul_matrix_wide_q8_0_f32
matrix_wide_q4_K matmul_matrix_wide_q4_K_f32
matvec_q4 matvec_direct_q4_0_q8 matvec_q4_0_q8
matvec_q4_K matvec_one_q4_K_q8 matvec_q4_K_q8
matmul_id_q4 matmul_id_q4_0_f32 matvec_id_q4_0_f32
attention_f16 attention_f16
attention_few_f16 attention_few_f16 attention_one_f16
END
}

case ${1-} in
gpu) gpu ;;
one-row) shift; one_row "$@" ;;
small) shift; small "$@" ;;
bounds)
    bounds aie2 phoenix 'bf16 512 512 512' 'bf16 2048 2048 512' 'bf16 2048 512 2048' 'bf16 500 1000 784' \
        'i8 2048 512 2048' 'i16 1024 1024 1024'
    ;;
bounds-aie2p) bounds aie2p strix 'bf16 2048 2048 512' 'i8 2048 512 2048' 'i16 1024 1024 1024' 'bfp16 2048 2048 512' ;;
unpack) unpack ;;
words) words ;;
layer) layer ;;
environment) environment ;;
*)
    echo "docs-tables.sh: '${1-}' is no table: one-row, small, bounds, bounds-aie2p, unpack, words, layer, environment" >&2
    exit 2
    ;;
esac
