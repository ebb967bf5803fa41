#!/bin/sh
# profile.sh <add> <plugin>: what GGML_HSA_PROFILE=1 prints for one ADD of a million values, and that
# nothing is printed without it.
set -eu
add=$1
plugin=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    cat "$work/err" >&2
    echo "profile.sh: $*" >&2
    exit 1
}

"$add" "$plugin" >/dev/null 2>"$work/err" || fail "exit status $?"
if grep -q modelled "$work/err"; then
    fail "printed without being asked"
fi
GGML_HSA_PROFILE=1 "$add" "$plugin" >/dev/null 2>"$work/err" || fail "exit status $?"
grep -Eq '^ggml-hsa: HSA0, modelled, clock phoenix \([0-9]+ MHz\)' "$work/err" || fail "no clock"
for cause in core bank lock stream start-up DDR control reconfig host flush; do
    grep -Eq "^op .* $cause( |\$)" "$work/err" || fail "no column $cause"
done
# One node, one kernel, one PDI; three tensors of 4 MiB pass the shim; the causes are all of the time.
awk '/^ADD f32 / { n++; sum = 0; for (i = 6; i <= 15; i++) sum += $i
                   if ($3 != 1 || $4 != 1 || $5 <= 0 || sum < 99 || sum > 101 || $16 != 1 ||
                       $17 < 12.58 || $17 > 12.6) bad = 1
                   time = $5 }
     /^total / { n++; if ($4 != time) bad = 1 }
     END { exit bad || n != 2 }' "$work/err" || fail "the row is not what one ADD is"
# Two of the tensors are read and one is written, each byte in a run of one length or another.
awk '/^% of the bytes, in runs of .* longer$/ { n++ }
     /^read |^written / { n++; sum = 0; for (i = 3; i <= NF; i++) sum += $i
                          want = $1 == "read" ? 8.389 : 4.194
                          if ($2 != want || NF != 9 || sum < 99 || sum > 101) bad = 1 }
     END { exit bad || n != 3 }' "$work/err" || fail "the runs are not those of one ADD"
# The same as a kernel, with its operands and its PDI.
GGML_HSA_PROFILE=kernels "$add" "$plugin" >/dev/null 2>"$work/err" || fail "exit status $?"
grep -Eq '^add [0-9x]+ of [0-9x]+ f32, [0-9x]+ f32: [a-z0-9_]+ +1 +1 +[0-9.]+ ' "$work/err" ||
    fail "no row for the kernel"
# In the order in which they were sent, by another word.
GGML_HSA_PROFILE=order "$add" "$plugin" >/dev/null 2>"$work/err" || fail "exit status $?"
grep -Eq '^kernel, its operands and PDI +sent as' "$work/err" || fail "no table in order"
# A trace has the op, the tensor and the kernel of a dispatch, and a mark where its PDI was loaded.
GGML_HSA_TRACE=$work/trace "$add" "$plugin" >/dev/null 2>"$work/err" || fail "exit status $?"
grep -q '"name":"ADD node_0",.*"cat":"dispatch","args":{"cycles":[0-9]*,"kernels":"[a-z]' "$work/trace" ||
    fail "no name in the trace"
grep -q '"ph":"i".*"name":"PDI load".*"for":"ADD node_0"' "$work/trace" || fail "no mark of a PDI"
grep -q '"name":"bundles".*"of":"ADD node_0"' "$work/trace" || fail "a core does not say what for"
# By the wall on a device that has no model; that wants a compiler for GPU kernels.
if GGML_HSA_EMULATE=gfx90a GGML_HSA_PROFILE=1 "$add" "$plugin" >/dev/null 2>"$work/err"; then
    grep -q 'HSA0, measured by the wall' "$work/err" || fail "a GPU is not measured by the wall"
    grep -Eq '^ADD f32 +1 +[0-9.]+$' "$work/err" || fail "no time for ADD"
fi
