#!/bin/sh
# models.sh <llama bin> <llama.cpp's source> <ggml's prefix> <plugin> <tiny-model>: stock llama.cpp's library with tiny
# models of random weights, on the CPU alone and with the plugin. The same tokens are given to both, a prompt and then
# one by one, and the logits (of an encoder, the mean of its embeddings) are compared. A line each: nodes of a token's
# graph, those that the scheduler gave to another backend than the device, and how far the logits are off, as the mean
# square of the differences over that of the logits: the power of ten above it, for the CPU's own sums differ from one
# machine to the next. A failure: off by more than MOST, or a node elsewhere that is not one of those that are known
# to be.
#
#   ARCHITECTURES="..."  which
#   MOST=1e-3            how far logits may be off
#
# The emulated NPU is used unless GGML_HSA_EMULATE is set. Status 77: there is no llama.cpp, or no compiler for the
# program that calls it.
set -eu
fifth="tiny-model"
. "$(dirname "$0")/prologue.sh"
tiny=$5
most=${MOST:-1e-3}
export GGML_HSA_EMULATE="${GGML_HSA_EMULATE-aie2}" GGML_HSA_HOST_FALLBACK=0
unset GGML_BACKEND_PATH
failed=0
program logits

# llama.cpp looks up embeddings on the CPU, which keeps their tables.
known="GET_ROWS"

printf '%-14s %6s %-42s %s\n' model nodes "not on the device" "logits off by"
for arch in ${ARCHITECTURES:-llama qwen2 qwen3 qwen3moe qwen3next gemma3 gpt-oss mamba2 granitehybrid rwkv7 bert}; do
    "$tiny" "$work/model.gguf" "$arch"
    if ! "$work/logits" "$bin" "$work/model.gguf" none "$work/cpu" 2>"$work/log" ||
        ! GGML_BACKEND_PATH=$plugin GGML_SCHED_DEBUG=2 "$work/logits" "$bin" "$work/model.gguf" HSA0 "$work/hsa" \
            2>"$work/log"; then
        tail -n 5 "$work/log" >&2
        echo "models.sh: $arch cannot be computed" >&2
        failed=1
        continue
    fi
    # The last graph that was divided; views and such are no work. The log cuts names after ten letters.
    grep -a -E 'node #[ 0-9]+\(|SPLIT #0' "$work/log" | awk '
        /SPLIT #0/ { n = away = 0; split("", count); split("", order); next }
        {
            op = $0; sub(/.*node #[ 0-9]+\( */, "", op); sub(/\).*/, "", op)
            to = $0; sub(/^[^[]*\[ */, "", to); sub(/[] ].*/, "", to)
            op = op == "GATED_DELT" ? "GATED_DELTA_NET" : op
            n++
            if (to != "HSA0" && op !~ /^(VIEW|RESHAPE|PERMUTE|TRANSPOSE)$/ && !count[op]++) {
                order[++away] = op
            }
        }
        END {
            print n
            for (i = 1; i <= away; i++) {
                printf "%s%d %s", (i > 1 ? ", " : ""), count[order[i]], order[i]
            }
            print ""
        }' >"$work/seen"
    { read -r nodes && read -r names; } <"$work/seen" || true
    off=$("$work/logits" --compare "$work/cpu" "$work/hsa")
    below=$(awk -v off="$off" 'BEGIN { p = 1; while (off + 0 < p / 10 && p > 1e-12) p /= 10; printf "%.0e", p }')
    printf '%-14s %6d %-42s < %s\n' "$arch" "$nodes" "$names" "$below"
    if [ "$nodes" = 0 ] || ! awk -v off="$off" -v most="$most" 'BEGIN { exit !(off + 0 <= most + 0) }'; then
        echo "models.sh: $arch: off by $off, $most may be" >&2
        failed=1
    fi
    for op in $(echo "$names" | tr -d ,); do
        case $op:" $known " in
        [0-9]*:* | *" $op "*) ;; # how many there are, or one of those
        *)
            echo "models.sh: $arch: $op is not on the device" >&2
            failed=1
            ;;
        esac
    done
done
exit $failed
