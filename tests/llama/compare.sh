#!/bin/sh
# compare.sh <llama bin> <plugin> <model>: stock llama.cpp writes a text with a model at temperature 0,
# on the CPU alone and with the plugin, and the texts are compared; then the same with the model
# quantized by llama-quantize. Prints a line per comparison and fails when a run fails, when one of the
# first TOKENS tokens is another one than on the CPU (of quantized weights: with these in F32), or when a
# MUL_MAT was not given to the device.
#
#   TOKENS=40         how many generated tokens must agree
#   LENGTH=256        how many are generated, to see how far the texts agree beyond that
#   TYPES="Q8_0 F16"  the quantizations
#   PROMPT="Once upon a time"
#   FLASH=auto        on or off: flash attention, which is one op where there are two MUL_MATs without it
#   THREADS=1         of the CPU backend; they wait by spinning, on the cores that an emulated NPU wants
#
# The emulated NPU is used unless GGML_HSA_EMULATE is set, be it to nothing; gfx1100 is an emulated GPU.
set -eu
export LC_ALL=C

if [ $# != 3 ]; then
    echo "usage: compare.sh <directory of llama-completion> <libggml-hsa.so> <model.gguf>" >&2
    exit 2
fi
bin=$1
plugin=$2
model=$3
tokens=${TOKENS:-40}
length=${LENGTH:-256}
threads=${THREADS:-1}
flash=${FLASH:-auto}
types=${TYPES-Q8_0 F16}
prompt=${PROMPT:-Once upon a time}
emulate=${GGML_HSA_EMULATE-aie2}
device=HSA0
gpu= # a GPU keeps no record of kernels, and multiplies as precisely as it can anyway
case $emulate in gfx*) gpu=1 ;; esac
here=$(dirname "$0")

for file in "$bin/llama-completion" "$bin/llama-quantize" "$plugin"; do
    if [ ! -f "$file" ]; then
        echo "compare.sh: there is no '$file'; \`make build llama\` makes it" >&2
        exit 2
    fi
done
if [ ! -r "$model" ]; then
    echo "compare.sh: there is no model '$model'; name a GGUF file of a language model," \
        "\`make llama-test MODEL=<file>\`, such as stories260K.gguf" >&2
    exit 2
fi
case $tokens$length$threads in
*[!0-9]*)
    echo "compare.sh: TOKENS='$tokens', LENGTH='$length' and THREADS='$threads' must be numbers" >&2
    exit 2
    ;;
esac
[ "$length" -ge "$tokens" ] || length=$tokens

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

complain() {
    echo "compare.sh: $*" >&2
    failed=1
}

# ---- runs ----

quantize() { # quantize <model> <out> <type>
    "$bin/llama-quantize" --allow-requantize "$@" >"$work/quantize.log" 2>&1 && return 0
    tail -n 20 "$work/quantize.log" >&2
    complain "llama-quantize cannot make $3 of ${1##*/}"
    return 1
}

# generate <name> <model> <arguments...>: the text goes to <name>.txt, what log.awk finds to <name>.seen.
# llama.cpp does not wait for its log, which is the text as well, and on a busy machine often ends first; the
# speed is the last that it logs, and a run without it is made again.
generate() {
    name=$work/$1
    file=$2
    shift 2
    attempt=0
    while [ $attempt -lt 20 ]; do
        attempt=$((attempt + 1))
        rm -f "$name.log"
        if ! GGML_SCHED_DEBUG=2 "$bin/llama-completion" -m "$file" -p "$prompt" -n "$length" --temp 0 \
            -t "$threads" -no-cnv -fa "$flash" -v --log-prefix --log-timestamps --log-file "$name.log" "$@" \
            </dev/null >"$name.txt" 2>"$name.err"; then
            tail -n 20 "$name.err" "$name.log" >&2 || true
            complain "llama-completion failed with ${file##*/} and: $*"
            return 1
        fi
        awk -v device="$device" -f "$here/log.awk" "$name.log" >"$name.new"
        if grep -q '^speed ' "$name.new"; then
            mv "$name.new" "$name.seen"
            return 0
        fi
    done
    complain "llama-completion lost the end of its log $attempt times"
    return 1
}

# Both run in a shell of their own, for the environment is theirs alone.
on_cpu() ( # on_cpu <name> <model>
    unset GGML_BACKEND_PATH
    generate "$1" "$2" -ngl 0
)

on_device() ( # on_device <name> <model> <kind of MUL_MAT>
    export GGML_BACKEND_PATH="$plugin" GGML_HSA_HOST_FALLBACK=0 GGML_HSA_RECORD="$work/$1.json"
    unset GGML_HSA_MUL_MAT GGML_HSA_EMULATE
    [ -z "$3" ] || export GGML_HSA_MUL_MAT="$3"
    [ -z "$emulate" ] || export GGML_HSA_EMULATE="$emulate"
    generate "$1" "$2" -ngl 99 -dev "$device"
)

# ---- what they show ----

seen() { # seen <name> <word> <field>
    awk -v word="$2" -v field="$3" '$1 == word { value = $field } END { print value }' "$work/$1.seen"
}

first_difference() { # first_difference <a> <b>: the number of the first byte that differs, or nothing
    cmp -s "$1" "$2" && return
    at=$(cmp -l "$1" "$2" 2>/dev/null | awk 'NR == 1 { print $1 }')
    if [ -z "$at" ]; then # one is the beginning of the other
        at=$(wc -c "$1" "$2" | awk '{ n[NR] = $1 } END { print (n[1] < n[2] ? n[1] : n[2]) + 1 }')
    fi
    echo "$at"
}

token_at() { # token_at <name> <byte>: the number of the generated token that this byte belongs to
    awk -v byte="$2" '$1 == "piece" && token == "" && $3 >= byte { token = $2 }
        $1 == "piece" { last = $2 } END { print token == "" ? last : token }' "$work/$1.seen"
}

row() { printf '%-16s %-13s %-37s %-24s %9s\n' "$@"; }

# show <label> <run> <what it is> <run on the CPU>
show() {
    byte=$(first_difference "$work/$4.txt" "$work/$2.txt")
    text="same for all $(seen "$4" piece 2) tokens"
    if [ -n "$byte" ]; then
        token=$(token_at "$4" "$byte")
        text="same until token $token (byte $byte)"
        if [ "$token" -le "$tokens" ] && [ "$binds" = 1 ]; then
            text="DIFFERENT from token $token (byte $byte)"
            complain "$1, $3: token $token differs, the first $tokens must not"
        fi
    fi
    on=$(seen "$2" matmul 2)
    of=$(seen "$2" matmul 3)
    kernels=
    if [ -z "$gpu" ]; then
        kernels=$(grep -c '"ggml_op_mul_mat"' "$work/$2.json" || true)
    fi
    row "$1" "$3" "$text" "$on of $of${kernels:+ ($kernels kernels)}" "$(seen "$2" speed 2)"
    if [ "$of" = 0 ] || [ "$on" != "$of" ]; then
        awk '$1 == "elsewhere" { print "    " $2 " on " $3 }' "$work/$2.seen" | head -n 4 >&2
        complain "$1, $3: $((of - on)) of $of MUL_MAT nodes were not given to $device"
    elif [ "$kernels" = 0 ]; then
        complain "$1, $3: $device asked for no kernel of MUL_MAT"
    fi
}

# show_all <label> <run on the CPU>; binds: whether the first tokens must be the same
show_all() {
    [ -f "$work/$2.seen" ] || return 0
    row "$1" CPU "$(wc -c <"$work/$2.txt") bytes" "" "$(seen "$2" speed 2)"
    [ ! -f "$work/usual.seen" ] || show "$1" usual "$device" "$2"
    [ ! -f "$work/precise.seen" ] || show "$1" precise "$device precise" "$2"
}

# compare <label> <model> [<exact>]: <exact> is the model with the same weights in F32. For a quantized type
# the CPU rounds the activations too, often to 8 bits, which the NPU does not; with these it does not either. How
# it rounds is another matter on each kind of processor (IQ4_NL on Arm leaves its own text in F32 at token 18):
# where there is <exact>, that is what binds.
compare() {
    on_cpu cpu "$2" || failed=1
    on_device usual "$2" "" &
    usual=$!
    if [ -z "$gpu" ]; then
        on_device precise "$2" precise &
        precise=$!
        wait "$precise" || failed=1
    fi
    wait "$usual" || failed=1
    binds=$(($# < 3))
    show_all "$1" cpu
    binds=1
    if [ $# = 3 ]; then
        on_cpu exact "$3" || failed=1
        show_all "$1 as F32" exact
    fi
    rm -f "$work"/*.seen "$work"/*.json
}

echo "-- \"$prompt\" and $length more tokens at temperature 0; the first $tokens must be those of the CPU"
row model "run on" "text" "MUL_MAT on $device" tokens/s
compare "${model##*/}" "$model"
for type in $types; do
    quantize "$model" "$work/$type.gguf" "$type" || continue
    quantize "$work/$type.gguf" "$work/exact.gguf" F32 || continue
    compare "$type" "$work/$type.gguf" "$work/exact.gguf"
    rm -f "$work"/*.gguf
done
[ "$failed" = 0 ] && echo "-- passed" || echo "-- failed"
exit "$failed"
