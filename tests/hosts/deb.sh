#!/bin/sh
# deb.sh <packages> <set> <model>: the packages of `make deb` in a bare tree with Debian's own llama.cpp, where
# programs run in a root directory of their own. dpkg installs them; llama.cpp lists the device without being
# told where the plugin is; a model writes the same text as on the CPU; without emulation nothing changes;
# removed, nothing is left.
set -eu
export LC_ALL=C
debs=$1
set=$2
model=${MODEL:-$3}
unset GGML_HSA_RUNTIME GGML_HSA_KERNEL_DIR GGML_HSA_EMULATE GGML_BACKEND_PATH GGML_HSA_HOST_FALLBACK || true

skip() {
    echo "skipped: $*"
    exit 77
}

ls "$debs"/libggml-hsa_*.deb >/dev/null 2>&1 || skip "no packages in $debs; \`make deb\` makes them"
[ -x "$set/run" ] || skip "no llama.cpp in $set; \`make test-deb\` gets it"
command -v dpkg >/dev/null || skip "there is no dpkg here"
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root="unshare -r"
    $as_root true 2>/dev/null || skip "neither root nor user namespaces, to give programs another root directory"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    tail -n 20 "$work/log" >&2
    echo "deb.sh: $*" >&2
    exit 1
}

# ---- a bare tree ----

root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/tmp" "$root/dev" "$root/root"
cp -al "$set/usr" "$root/usr" 2>/dev/null || { rm -rf "$root/usr"; cp -a "$set/usr" "$root/usr"; }
for dir in bin sbin lib lib64; do
    mkdir -p "$root/usr/$dir"
    ln -s "usr/$dir" "$root/$dir"
done
# Its libraries are in the directories of their packages; no ldconfig has run.
libs=$(find "$root/usr/lib" -name '*.so.*' -printf '/%P\n' | sed 's,^/,/usr/lib/,;s,/[^/]*$,,' | sort -u | tr '\n' ':')
# As far as dpkg needs to know them.
while read -r name version; do
    printf 'Package: %s\nStatus: install ok installed\nVersion: %s\nArchitecture: %s\nMaintainer: x\nDescription: x\nMulti-Arch: same\n\n' \
        "$name" "$version" "$(dpkg --print-architecture)"
done <"$set/packages" >"$root/var/lib/dpkg/status"
: >"$root/var/lib/dpkg/available"
find "$root/usr" | sort >"$work/before"

admin() { $as_root dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null "$@" >"$work/log" 2>&1; }
inside() { $as_root env -i PATH=/usr/bin HOME=/root LD_LIBRARY_PATH="$libs" GGML_NO_BACKTRACE=1 "$@"; }
in_root() { # in_root <variables...> -- <program> <arguments>
    variables=
    while [ "$1" != -- ]; do
        variables="$variables $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    inside $variables "$(command -v chroot || echo /usr/sbin/chroot)" "$root" "$@"
}

# ---- installed ----

seconds=$(date +%s)
admin --install "$debs"/libggml-hsa_*.deb "$debs"/libhsa-npu_*.deb "$debs"/librocm-kernels_*.deb \
    "$debs"/ggml-hsa-tools_*.deb || fail "dpkg does not install them"
in_root -- /usr/bin/llama-cli --list-devices >"$work/log" 2>&1 || fail "llama-cli does not start with the plugin there"
! grep -q HSA0 "$work/log" || fail "a device, though nothing is emulated"
in_root GGML_HSA_EMULATE=aie2 -- /usr/bin/llama-cli --list-devices >"$work/log" 2>&1 || fail "llama-cli does not start"
if grep -q 'ggml-hsa: ggml .* is not supported' "$work/log"; then
    skip "Debian has ggml $(sed -n 's/^libggml0 //p' "$set/packages") by now, which the plugin refuses"
fi
grep -q '^ *HSA0: .*(aie2, emulated)' "$work/log" || fail "llama-cli does not find the plugin by itself"
echo "installed and listed:$(grep 'HSA0:' "$work/log")"
in_root GGML_HSA_EMULATE=aie2 -- /usr/bin/ggml-hsa info >"$work/log" 2>&1 || fail "ggml-hsa info"

# ---- a model writes ----

if [ -r "$model" ]; then
    cp "$model" "$root/tmp/model.gguf"
    # llama.cpp does not wait for its log, which is the text as well; the times are the last in it, and a run
    # without them is made again.
    writes() { # writes <file> <variables...> -- <arguments>
        text=$1
        shift
        for attempt in 1 2 3 4 5 6 7 8; do
            in_root "$@" -m /tmp/model.gguf -p "Once upon a time" -n 30 --temp 0 -no-cnv -t 1 -fa off \
                </dev/null >"$text" 2>"$work/log" || fail "llama-completion fails"
            ! grep -q 'total time' "$work/log" || return 0
        done
        fail "llama-completion lost the end of its log $attempt times"
    }
    writes "$work/cpu" -- /usr/bin/llama-completion -dev none
    writes "$work/npu" GGML_HSA_EMULATE=aie2 GGML_HSA_RECORD=/tmp/needed.json -- /usr/bin/llama-completion -dev HSA0 -ngl 99
    grep -qi mul_mat "$root/tmp/needed.json" 2>/dev/null || fail "HSA0 multiplied nothing"
    [ -s "$work/cpu" ] || fail "the CPU writes nothing"
    cmp -s "$work/cpu" "$work/npu" || fail "'$(cat "$work/npu")', and on the CPU '$(cat "$work/cpu")'"
    echo "llama.cpp $(sed -n 's/^llama.cpp-tools //p' "$set/packages"): 30 tokens on HSA0 as on the CPU"
else
    echo "skipped: no model '$model'; make test-deb MODEL=<file.gguf>"
fi
echo "from dpkg to the text: $(($(date +%s) - seconds)) s"

# ---- removed ----

admin --purge ggml-hsa-tools librocm-kernels libhsa-npu libggml-hsa || fail "dpkg does not remove them"
find "$root/usr" | sort >"$work/after"
cmp -s "$work/before" "$work/after" || {
    diff "$work/before" "$work/after" >"$work/log" || true
    fail "what was there before is not what is there after"
}
