#!/bin/sh
# vision.sh <plugin> <set> <vision-model> <tiny-model>: Debian's own llama-mtmd-cli looks at a picture with the plugin as
# it was built here, on emulated NPUs. What becomes of the picture, the first and last numbers of a token, is compared
# with the CPU's: the mean square of the differences over that of the numbers is at most MOST. Nothing of it may be
# left to the CPU.
set -eu
. "$(dirname "$0")/prologue.sh"
plugin=$(realpath "$1")
maker=$(realpath "$3")
tiny=$(realpath "$4")
most=${MOST:-1e-3}
export MTMD_DEBUG_EMBEDDINGS=1
begin "$2" ggml
[ -x "$set/usr/bin/llama-mtmd-cli" ] || skip "Debian's llama.cpp has no llama-mtmd-cli"
version=$(sed -n 's/^llama.cpp-tools //p' "$set/packages")
cd "$backends"
"$maker" "$work/vision.gguf" "$work/picture.ppm"
"$tiny" "$work/text.gguf"

# look <name> <arguments>: the numbers go to <name>, one a line. Each has a time before it in llama.cpp's log, for which
# it does not wait; a run without all of the 32 is made again.
look() {
    name=$1
    shift
    for _ in 1 2 3 4 5; do
        timeout 200 "$set/run" llama-mtmd-cli -m "$work/text.gguf" --mmproj "$work/vision.gguf" \
            --image "$work/picture.ppm" -p "what is it" --chat-template vicuna -n 4 --temp 0 -t 1 -lv 4 "$@" \
            >"$work/log" 2>&1 </dev/null || fail "$name: llama-mtmd-cli fails"
        grep -a 'Token 0 (' "$work/log" | grep -oE -e '-?[0-9]+\.[0-9]{6}' >"$work/$name" || true
        [ "$(wc -l <"$work/$name")" = 32 ] && return 0
    done
    fail "$name: llama-mtmd-cli does not print what becomes of the picture"
}

look cpu -ngl 0 --no-mmproj-offload
for npu in aie2 aie2p; do
    export GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE=$npu GGML_HSA_EXPLAIN=1
    look npu -ngl 99
    refused "$work/log" "a ggml in llama.cpp $version"
    grep -aq 'CLIP using HSA0 backend' "$work/log" || fail "$npu: llama-mtmd-cli does not take the device HSA0"
    ! grep -a 'ggml-hsa: HSA0: ' "$work/log" >&2 || fail "$npu: not all of it is on the device"
    off=$(paste "$work/cpu" "$work/npu" | awk -v most="$most" '
        { off += ($1 - $2) ^ 2; all += $1 ^ 2 }
        END { printf "%.0e", off / all; exit !(off <= most * all) }') || {
        paste "$work/cpu" "$work/npu" >&2
        fail "$npu: the numbers of the CPU and the device differ by $off"
    }
    echo "llama.cpp $version, $npu: a picture is what it is on the CPU, off by $off"
done
