# prologue.sh: what the tests begin with that run Debian's programs of ggml with the plugin; they source it, and call
# `begin` then.
export LC_ALL=C GGML_NO_BACKTRACE=1 GGML_HSA_KERNEL_CACHE_MAX_SIZE=0
unset GGML_HSA_RUNTIME GGML_HSA_KERNEL_DIR GGML_HSA_EMULATE GGML_BACKEND_PATH GGML_HSA_HOST_FALLBACK || true

skip() {
    echo "skipped: $*"
    exit 77
}

# begin <set> <what is in it>: $set, the directory $work, which goes with the test, and $backends, where ggml's are. It
# looks for them in the current directory as well.
begin() {
    [ -x "$1/run" ] || skip "no $2 in $1; \`make test-hosts\` gets it"
    set=$(cd "$1" && pwd)
    work=$(mktemp -d)
    trap finish EXIT
    trap 'exit 1' HUP INT TERM
    backends=$(echo "$set"/lib/ggml/backends*)
}

finish() {
    rm -rf "$work"
}

fail() {
    for log in "$work/log" "$work"/*.log; do
        [ ! -e "$log" ] || { echo "-- ${log##*/}" && tail -n 20 "$log"; }
    done >&2
    echo "${0##*/}${part:+ $part}: $*" >&2
    exit 1
}

# refused <log> <program>: newer releases come and go; the plugin says which it knows, and a refusal is not a failure.
refused() {
    if grep -a 'ggml-hsa: ggml .* is not supported' "$1"; then
        skip "Debian has $2 by now, which the plugin refuses"
    fi
}
