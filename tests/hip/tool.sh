#!/bin/sh
# tool.sh <rocm-kernels> <clang or empty>: what the tool says when something is missing, once and with its reason;
# its answers for programs; its help.
set -eu
export LC_ALL=C
tool=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/none"
export CANDLE_ROCM_CACHE_DIR="$dir/cache" GGML_HSA_EMULATE=gfx90a
unset ROCM_KERNELS_COMPILER CANDLE_ROCM_VERSION CANDLE_ROCM_ARCH ROCM_GFX_ARCH ROCM_PATH || true
failed=0

# expect <status> <text> <arguments>: runs it; the text must stand in what it says. $path is its PATH.
path=$PATH
expect() {
    wanted=$1
    text=$2
    shift 2
    got=0
    PATH=$path "$tool" "$@" >"$dir/out" 2>"$dir/err" </dev/null || got=$?
    cat "$dir/out" "$dir/err" >"$dir/both"
    if [ $got != "$wanted" ] || ! grep -qF -- "$text" "$dir/both"; then
        echo "rocm-kernels $*: status $got, wanted $wanted and '$text':"
        head -n 12 "$dir/both"
        failed=1
    fi
}

never() { # never <text>: in what was said last
    if grep -qF -- "$1" "$dir/both"; then
        echo "'$1' was said:"
        head -n 12 "$dir/both"
        failed=1
    fi
}

lines() { # lines <n> <text>: it stands in so many lines
    n=$(grep -cF -- "$2" "$dir/both" || true)
    if [ "$n" != "$1" ]; then
        echo "'$2' stands in $n lines, not in $1"
        failed=1
    fi
}

# The modules, with the number of kernels of each.
"$tool" list --json | sed -n 's/^    "\(.*\)": \([0-9]*\),*$/\1 \2/p' >"$dir/modules"
modules=$(awk 'END { print NR }' "$dir/modules")
total=$(awk '{ n += $2 } END { print n }' "$dir/modules")
[ "$modules" -gt 60 ] && [ "$total" -gt 700 ] || { echo "list: $total kernels in $modules modules"; failed=1; }

# ---- without a compiler ----

path=$dir/none
for kernel in unary_exp_f32 softmax_f32 matmul_f32 matvec_q4_0_f32 glu_swiglu_f32 ggml_rope_f32 fill_f32; do
    expect 1 "no HIP compiler" run $kernel
    never "nothing is known"
done
expect 1 "no HIP compiler" run --all
lines 1 "no HIP compiler"
expect 1 "the same for $((modules - 1)) more" compile --all --arch gfx90a
lines 1 "no HIP compiler"
expect 1 "\"failed\": $modules" compile --all --arch gfx90a --json
path=$PATH

# ---- a source of the user's own ----

if PATH=$path command -v clang++-19 >/dev/null; then
    cat >"$dir/mine.hip" <<'END'
#include <hip/hip_runtime.h>
extern "C" __global__ void f(float * x) { x[threadIdx.x] = 1; }
END
    expect 1 "the source includes headers of HIP" compile "$dir/mine.hip" --arch gfx1100 --compiler clang
    expect 1 "no hipcc that knows gfx1100 was found" compile "$dir/mine.hip" --arch gfx1100 --compiler clang
    cat >"$dir/alone.hip" <<'END'
extern "C" __attribute__((global)) void f(float * x) { x[__builtin_amdgcn_workitem_id_x()] = 1; }
END
    expect 0 "1 compiled" compile "$dir/alone.hip" --arch gfx1100 --compiler clang
    expect 0 '"compiled": 1' compile binary --arch gfx1100 --compiler clang --json
    # Without --arch the answer names the GPU that is here.
    expect 0 '"arch": "gfx90a"' compile bits --compiler clang --json
    expect 0 "gfx90a   bits" compile bits --compiler clang
    # A source is text.
    printf 'int a;\000int b;\n' >"$dir/nul.hip"
    expect 1 "nul.hip: byte 6 is NUL" compile "$dir/nul.hip" --arch gfx1100 --compiler clang
    # What was made by the compiler that the variable names is good as long as it names it.
    mkdir "$dir/own"
    printf '#!/bin/sh\nexec clang++-19 "$@"\n' >"$dir/own/clang++"
    chmod +x "$dir/own/clang++"
    CANDLE_ROCM_CACHE_DIR="$dir/own-cache"
    ROCM_KERNELS_COMPILER="$dir/own/clang++" expect 0 "1 compiled" compile bits --arch gfx1100
    ROCM_KERNELS_COMPILER="$dir/own/clang++" expect 0 "1 good, 0 stale" cache verify
    expect 0 "0 good, 1 stale" cache verify
    CANDLE_ROCM_CACHE_DIR="$dir/cache"
    # A GPU that is newer than the compiler.
    if [ "$(PATH=$path clang++-19 -dumpversion | cut -d. -f1)" = 19 ]; then
        expect 1 "clang++ 20 or newer does, and hipcc of ROCm 7.0" compile bits --arch gfx950 --compiler clang
        expect 0 "left out: gfx950 is newer than the compilers here" compile bits --arch all --compiler clang
        lines 1 "gfx1151  bits"
        lines 1 "gfx1030  bits"
        lines 1 "gfx1201  bits"
    fi
    # What stands where the copy is to go and is no regular file stays.
    mkdir -p "$dir/co/gfx1100"
    ln -s "$dir/victim" "$dir/co/gfx1100/binary.co"
    expect 1 "regular file" compile binary --arch gfx1100 --compiler clang --output-dir "$dir/co"
    [ -L "$dir/co/gfx1100/binary.co" ] && [ ! -e "$dir/victim" ] || { echo "--output-dir: a link was lost"; failed=1; }
    rm "$dir/co/gfx1100/binary.co"
    mkfifo "$dir/co/gfx1100/binary.co"
    expect 1 "regular file" compile binary --arch gfx1100 --compiler clang --output-dir "$dir/co"
    [ -p "$dir/co/gfx1100/binary.co" ] || { echo "--output-dir: a pipe was lost"; failed=1; }
    rm "$dir/co/gfx1100/binary.co"
    expect 0 "was kept" compile binary --arch gfx1100 --compiler clang --output-dir "$dir/co"
    [ -f "$dir/co/gfx1100/binary.co" ] || { echo "--output-dir: no copy"; failed=1; }
else
    echo "not looked at: sources of one's own (no clang++-19)"
fi

# ---- without a GPU ----

GGML_HSA_EMULATE=aie2 expect 1 "GGML_HSA_EMULATE=aie2 has no GPU to run kernels on; set it to gfx1100" run fill_f32
GGML_HSA_EMULATE=gfx1100 expect 1 "--device 3: there is no such GPU; the last is 0" run fill_f32 --device 3
if [ ! -e /dev/kfd ]; then
    GGML_HSA_EMULATE='' expect 1 "GGML_HSA_EMULATE=gfx1100 makes an emulated one" run fill_f32
    never "GGML_HSA_EMULATE=aie2"
fi

# ---- answers and help ----

# As many as the modules have together.
expect 0 "\"kernels\": $total" list --json
expect 0 '"binary_add_f32"' list binary --json
expect 0 '"max_bytes":' cache --json
expect 0 '"code_objects":' cache list --json
expect 0 'MiB of at most 1024.0 MiB' cache stat
expect 0 ' code objects removed, ' cache trim --max-size 500M
expect 0 ' code objects removed, ' cache trim 500M
expect 0 ' code objects removed, ' cache trim
expect 2 '--max-size wants bytes' cache trim --max-size 5X
expect 2 'trim [--max-size N]' cache trim --max-size
expect 2 'trim [--max-size N]' cache trim 1M 2M
expect 0 '"removed":' cache clear --json
# 1: something is missing, here a compiler, and the answer says what
have=0
command -v clang++-19 >/dev/null || command -v hipcc >/dev/null || have=1
CANDLE_ROCM_VERSION=6.0 expect $have '"arch": "gfx90a"' info --json
# Without a GPU the advice is one that brings a GPU.
[ -e /dev/kfd ] || GGML_HSA_EMULATE= expect 1 'gfx1100' run unary_f32
expect 2 "no subcommand 'complie'; did you mean 'compile'?" complie
expect 2 "no option '--al' of compile; did you mean '--all'?" compile --al
expect 2 "no option '--jason' of info; did you mean '--json'?" info --jason
expect 2 "did you mean 'verify'?" cache verfy
expect 2 "no module 'unary_f23'; did you mean 'unary_f32'?" list unary_f23
for sub in info list compile run cache; do
    expect 0 "usage: rocm-kernels $sub" $sub --help
    expect 0 "  $sub " --help
done
expect 0 "rocm-kernels 0." --version
exit $failed
