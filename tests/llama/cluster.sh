#!/bin/sh
# cluster.sh <ggml bin> <llama bin> <plugin> <wire> <model> <tiny-model>: two servers of ggml, each with an NPU of its
# own, and a stock llama.cpp that knows them by their addresses only. The same text is written on one NPU in the
# process, on one behind a server, and with the layers divided over both servers; the texts must be the same, and each
# server must have layers. Prints for each run what goes over the wire for a token.
#
#   LENGTH=24                how many tokens are generated; the first 8 are the measure that is subtracted
#   PROMPT="Once upon a time"
#   GGML_HSA_EMULATE=aie2    the device of each server; set to nothing, the NPU of this machine
#
# Everything listens on the loopback alone, on ports that were free. Ends with 77 where llama.cpp is missing.
set -eu
export LC_ALL=C

if [ $# != 6 ]; then
    echo "usage: cluster.sh <directory of ggml-rpc-server> <directory of llama-completion> <libggml-hsa.so> <wire>" \
        "<model.gguf> <tiny-model>" >&2
    exit 2
fi
ggml=$1
bin=$2
plugin=$3
wire=$4
model=$5
tiny=$6
first=8
length=${LENGTH:-24}
prompt=${PROMPT:-Once upon a time}
emulate=${GGML_HSA_EMULATE-aie2}
unset GGML_BACKEND_PATH GGML_HSA_KERNEL_DIR GGML_HSA_RECORD GGML_HSA_MUL_MAT GGML_HSA_EMULATE

for file in "$bin/llama-completion" "$ggml/ggml-rpc-server" "$ggml/libggml-rpc.so"; do
    if [ ! -r "$file" ]; then
        echo "skipped: there is no $file (\`make llama\` makes it)"
        exit 77
    fi
done
case $length in
*[!0-9]* | [0-9])
    echo "cluster.sh: LENGTH='$length' must be a number of two digits or more" >&2
    exit 2
    ;;
esac

work=$(mktemp -d)
started=
# Those that have ended already are nothing to complain of.
finish() {
    for id in $started; do
        kill "$id" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "cluster.sh: $*" >&2
    exit 1
}

if [ ! -r "$model" ]; then
    "$tiny" "$work/tiny.gguf"
    model=$work/tiny.gguf
fi

# ---- servers ----

[ -z "$emulate" ] || export GGML_HSA_EMULATE="$emulate"
for n in 0 1; do
    port=$("$wire" --free)
    GGML_BACKEND_PATH=$plugin "$ggml/ggml-rpc-server" -H 127.0.0.1 -p "$port" -d HSA0 >"$work/server$n.log" 2>&1 &
    started="$started $!"
    echo "$port" >"$work/server$n.port"
done
unset GGML_HSA_EMULATE

# ---- runs ----

# wires <count>: one in front of each server; the client sees these.
wires() {
    rpc=
    n=0
    while [ $n -lt "$1" ]; do
        : >"$work/wire$n" # the background shell would empty it too late
        "$wire" "$(cat "$work/server$n.port")" >"$work/wire$n" &
        echo $! >"$work/wire$n.pid"
        started="$started $(cat "$work/wire$n.pid")"
        while [ ! -s "$work/wire$n" ]; do sleep 0.05; done
        rpc=$rpc${rpc:+,}127.0.0.1:$(head -n 1 "$work/wire$n")
        n=$((n + 1))
    done
}

# llama <name> <tokens> <arguments>: text to <name>.txt. llama.cpp does not wait for its log, whose last lines have
# the speed; returns whether they are there.
llama() {
    name=$work/$1
    tokens=$2
    shift 2
    rm -f "$name.log"
    "$bin/llama-completion" -m "$model" -p "$prompt" -n "$tokens" --temp 0 -t 1 -no-cnv -fa off -ngl 99 -v \
        --log-prefix --log-timestamps --log-file "$name.log" "$@" </dev/null >"$name.txt" 2>"$name.err" ||
        { tail -n 20 "$name.err" "$work"/server?.log >&2; fail "llama-completion failed: $*"; }
    grep -q ' eval time = ' "$name.log"
}

again() { # again <attempt>: whether there may be another
    [ "$1" -lt 8 ] || fail "llama-completion lost the end of its log $1 times"
}

speed() { sed -n '/prompt eval/d; s/.* eval time = .* \([0-9.]*\) tokens per second.*/\1/p' "$work/$1.log" | tail -n 1; }

row() { printf '%-22s %-28s %8s  %s\n' "$@"; }

# once <name> <servers> <tokens>: one run, with wires of its own
once() {
    wires "$2"
    complete=0
    GGML_BACKEND_PATH=$ggml/libggml-rpc.so llama "$1" "$3" --rpc "$rpc" || complete=1
    n=0
    while [ $n -lt "$2" ]; do
        kill "$(cat "$work/wire$n.pid")"
        wait "$(cat "$work/wire$n.pid")" || fail "wire $n failed"
        sed -n 2p "$work/wire$n" >"$work/$1.$n.$3"
        n=$((n + 1))
    done
    return $complete
}

# over_wire <name> <servers>: a short run and a long one, and the difference of what they sent
over_wire() {
    for tokens in $first "$length"; do
        attempt=0
        until once "$1" "$2" "$tokens"; do
            attempt=$((attempt + 1))
            again $attempt
        done
    done
    cmp -s "$work/$1.txt" "$work/here.txt" || {
        diff "$work/here.txt" "$work/$1.txt" >&2 || true
        fail "$1 writes another text than one NPU in the process"
    }
    n=0
    while [ $n -lt "$2" ]; do
        layers=$(sed -n "s/.*layer *\([0-9]*\) assigned to device RPC$n.*/\1/p" "$work/$1.log" | sort -u | wc -l)
        [ "$layers" -gt 0 ] || fail "$1: server $n has no layer"
        row "$1, server $n" "$layers layers, the same text" "$([ $n != 0 ] || speed "$1")" "$(
            awk -v tokens=$((length - first)) 'NR == 1 { to = $1; from = $2; turns = $3 }
                NR == 2 { printf "%d bytes to it, %d from it, %.1f answers", ($1 - to) / tokens,
                    ($2 - from) / tokens, ($3 - turns) / tokens }' "$work/$1.$n.$first" "$work/$1.$n.$length"
        )"
        n=$((n + 1))
    done
}

echo "-- \"$prompt\" and $length tokens with ${model##*/}; on the wire: a token"
row "run on" text tokens/s "on the wire"
[ -z "$emulate" ] || export GGML_HSA_EMULATE="$emulate"
attempt=0
until GGML_BACKEND_PATH=$plugin llama here "$length" -dev HSA0; do
    attempt=$((attempt + 1))
    again $attempt
done
unset GGML_HSA_EMULATE
row "one NPU, no server" "$(wc -c <"$work/here.txt") bytes" "$(speed here)" nothing
over_wire "one NPU" 1
over_wire "two NPUs" 2
