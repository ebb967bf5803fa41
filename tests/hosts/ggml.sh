#!/bin/sh
# ggml.sh <part> <plugin> <set> <model>: Debian's own ggml and llama.cpp, as newer releases have them, with the
# plugin as it was built here, on an emulated NPU. The parts:
#   devices   the plugin loads and lists its device; a ggml that it does not know is refused
#   ops       ggml's own comparison with the CPU, for a few ops
#   text      a model writes the same text as on the CPU (tests/llama/compare.sh)
#   rpc       the same through ggml-rpc-server
#   server    llama-server answers four clients at once, each as the CPU does
#
# Everything listens on 127.0.0.1 alone, and ends with this script.
set -eu
. "$(dirname "$0")/prologue.sh"
part=$1
plugin=$2
model=${MODEL:-$4}
here=$(cd "$(dirname "$0")" && pwd)
begin "$3" ggml
servers=
stop_servers() {
    for pid in $servers; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    servers=
}
finish() {
    stop_servers
    rm -rf "$work"
}

# A program of the set. ggml looks for its backends where Debian installs them, beside the program, for which
# it takes the dynamic linker, and in the current directory.
libexec=$(echo "$set"/usr/libexec/*-linux-gnu*)
mkdir "$work/bin"
for program in "$set"/usr/bin/llama-* "$libexec"/llama/bin/ggml-rpc-server "$libexec"/ggml/test-backend-ops; do
    printf '#!/bin/sh\ncd "%s" && exec "%s" "%s" "$@"\n' "$backends" "$set/run" "$program" >"$work/bin/${program##*/}"
    chmod +x "$work/bin/${program##*/}"
done
on_npu() { env GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE=aie2 "$@"; }

# What this ggml says to the plugin; test-backend-ops writes it at once, llama.cpp may end before its log does.
devices() { on_npu "$work/bin/test-backend-ops" test -b none -o NONE >"$work/devices.log" 2>&1 || fail "ggml does not start"; }

devices
version=$(sed -n 's/^libggml0 //p' "$set/packages")
refused "$work/devices.log" "ggml $version"
grep -q 'Backend .*: HSA0' "$work/devices.log" || fail "no device HSA0"

need_model() {
    [ -r "$model" ] || skip "no model '$model'; make test-hosts MODEL=<file.gguf>"
    command -v curl >/dev/null || skip "curl is not installed"
    model=$(realpath "$model")
}

# started <name> <what it says> <program> <arguments>: a server on a port that is free, and in $port then. The
# program is started without a function around it, for a shell in between would be killed in its place.
started() {
    name=$1
    says=$2
    shift 2
    port=$((20000 + $$ % 20000))
    for attempt in 1 2 3 4 5; do
        port=$((port + 97 * attempt))
        : >"$work/$name.log"
        timeout 800 "$@" --port $port >"$work/$name.log" 2>&1 &
        pid=$!
        i=0
        while [ $i -lt 600 ] && kill -0 $pid 2>/dev/null; do
            if grep -q "$says" "$work/$name.log"; then
                servers="$servers $pid"
                return 0
            fi
            sleep 0.1
            i=$((i + 1))
        done
        kill $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
    done
    fail "$name does not start"
}

# llama_server <name> <arguments>: without flash attention, which is another computation than what it replaces.
llama_server() {
    name=$1
    shift
    started "$name" 'listening on http' "$work/bin/llama-server" -m "$model" --host 127.0.0.1 -c 1024 -np 4 -t 1 -fa off "$@"
}

ask() { # ask <port> <prompt> <tokens> <file for the text>
    curl -s -m 300 --noproxy '*' "http://127.0.0.1:$1/completion" \
        -d "{\"prompt\": \"$2\", \"n_predict\": $3, \"temperature\": 0, \"cache_prompt\": false}" |
        sed -n 's/.*"content":"\([^"]*\)".*/\1/p' >"$4"
    [ -s "$4" ]
}

case $part in
devices)
    on_npu "$work/bin/llama-cli" --list-devices >"$work/list.log" 2>&1 || fail "llama-cli does not start"
    grep -q '^ *HSA0: .*(aie2, emulated)' "$work/list.log" || fail "llama-cli does not list HSA0"
    # 0.26 has the layout of 0.27; 0.25 has another one, which this ggml has not.
    LD_PRELOAD=$(dirname "$plugin")/libother-ggml-version.so
    export LD_PRELOAD
    for claimed in 0.26.0 0.25.1 0.28.0; do
        export OTHER_GGML_VERSION=$claimed
        devices
        if [ $claimed = 0.26.0 ]; then
            grep -q 'Backend .*: HSA0' "$work/devices.log" || fail "no device with ggml $claimed"
        else
            grep -q "ggml-hsa: ggml $claimed (backend API 3) is not supported" "$work/devices.log" ||
                fail "ggml $claimed is not refused"
        fi
    done
    echo "ggml $version: one device; 0.26.0 is let in, 0.25.1 with the wrong layout and 0.28.0 are refused"
    ;;
ops)
    for op in ADD RMS_NORM SOFT_MAX GET_ROWS; do
        on_npu "$work/bin/test-backend-ops" test -b HSA0 -o $op >"$work/ops.log" 2>&1 || fail "$op differs from the CPU"
        passed=$(sed -n 's/^ *\([1-9][0-9]*\)\/\1 tests passed$/\1/p' "$work/ops.log" | head -n 1)
        [ -n "$passed" ] || fail "$op was not tried on HSA0"
        echo "ggml $version, $op: $passed cases as on the CPU"
    done
    ;;
text)
    need_model
    export TOKENS=30 LENGTH=30 TYPES=
    GGML_HSA_EMULATE=aie2 sh "$here/../llama/compare.sh" "$work/bin" "$plugin" "$model"
    ;;
rpc)
    need_model
    llama_server cpu -ngl 0
    ask $port "Once upon a time" 20 "$work/wanted" || fail "no answer of the CPU"
    stop_servers
    # Its clients do not ask what a device supports, so that the plugin must do all of it.
    started rpc 'Devices:' env GGML_HSA_HOST_FALLBACK=1 GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE=aie2 \
        "$work/bin/ggml-rpc-server" -H 127.0.0.1 -d HSA0
    rpc=$port
    llama_server client --rpc 127.0.0.1:$rpc -dev RPC0 -ngl 99
    ask $port "Once upon a time" 20 "$work/text" || fail "no answer through the server"
    cmp -s "$work/wanted" "$work/text" || fail "'$(cat "$work/text")', and on the CPU '$(cat "$work/wanted")'"
    echo "ggml-rpc-server of ggml $version: 20 tokens as on the CPU"
    ;;
server)
    need_model
    n=0
    llama_server cpu -ngl 0
    for prompt in "Once upon a time" "One day, a cat" "The little dog" "Tom and Sue"; do
        n=$((n + 1))
        echo "$prompt" >"$work/prompt.$n"
        ask $port "$prompt" 12 "$work/wanted.$n" || fail "no answer of the CPU"
    done
    stop_servers
    export GGML_BACKEND_PATH="$plugin" GGML_HSA_EMULATE=aie2
    llama_server npu -ngl 99 -dev HSA0
    clients=
    for i in $(seq $n); do
        ask $port "$(cat "$work/prompt.$i")" 12 "$work/text.$i" &
        clients="$clients $!"
    done
    for client in $clients; do
        wait "$client" || fail "a client got no answer"
    done
    for i in $(seq $n); do
        cmp -s "$work/wanted.$i" "$work/text.$i" ||
            fail "'$(cat "$work/text.$i")', and on the CPU '$(cat "$work/wanted.$i")'"
    done
    stop_servers # its log is whole then
    together=$(awk '/processing task/ { most = ++running > most ? running : most } /stop processing/ { running-- }
        END { print most + 0 }' "$work/npu.log")
    [ "$together" -ge 2 ] || fail "the clients were served one after the other"
    echo "llama-server with ggml $version: four clients, $together at once, each with the CPU's text"
    ;;
*)
    echo "ggml.sh: there is no part '$part'" >&2
    exit 2
    ;;
esac
