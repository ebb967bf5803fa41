#!/bin/sh
# rocminfo.sh <directory of the emulated runtime> <set>: Debian's newest rocminfo, unmodified, must list the
# emulated NPU and GPUs in their order, and find nothing without emulation.
set -eu
export LC_ALL=C
runtime=$1
set=$2
if [ ! -x "$set/run" ]; then
    echo "skipped: no rocminfo in $set; \`make test-hosts\` gets it"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GGML_HSA_EMULATE

fail() {
    cat "$work/out" >&2
    echo "rocminfo.sh: $*" >&2
    exit 1
}

GGML_HSA_EMULATE=gfx1100,aie2,gfx90a,gfx942 timeout 60 "$set/run" -l "$runtime" rocminfo >"$work/out" 2>&1 ||
    fail "exit status $?"
# What it must print, in this order.
cat >"$work/wanted" <<'END'
Runtime Ext Version: 1.15
VMM Support: YES
Device Type: CPU
Name: gfx1100
Marketing Name: AMD Radeon RX 7900 XTX
Feature: KERNEL_DISPATCH
Device Type: GPU
Wavefront Size: 32(0x20)
Name: amdgcn-amd-amdhsa--gfx1100
Name: aie2
Marketing Name: RyzenAI-npu1
Feature: AGENT_DISPATCH
Size: 65536(0x10000) KB
Name: gfx90a
Marketing Name: AMD Instinct MI210
Wavefront Size: 64(0x40)
Name: amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
Name: gfx942
Marketing Name: AMD Instinct MI300X
Name: amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-
*** Done ***
END
missing=$(tr -s ' ' <"$work/out" | sed 's/^ //;s/ $//' | awk '
    NR == FNR { wanted[++n] = $0; next }
    at < n && $0 == wanted[at + 1] { at++ }
    END { if (at < n) print wanted[at + 1] }' "$work/wanted" -)
[ -z "$missing" ] || fail "'$missing' is not where it should be"
timeout 60 "$set/run" -l "$runtime" rocminfo >"$work/out" 2>&1 || true
! grep -Eq 'aie2|gfx[0-9]' "$work/out" || fail "it lists devices though nothing is emulated"
echo "rocminfo $(sed -n 's/^rocminfo //p' "$set/packages"): one NPU and three GPUs"
