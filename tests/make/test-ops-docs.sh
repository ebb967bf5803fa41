#!/bin/sh
# test-ops-docs.sh <ops-docs.sh>: a test-backend-ops that fails half way through its list makes no page, and
# the old one stays.
set -u
script=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/docs"
printf 'GGML_BIN_DIR:PATH=%s\nCMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$dir/bin" "$dir" >"$dir/CMakeCache.txt"
cat >"$dir/bin/test-backend-ops" <<'END'
#!/bin/sh
echo "\"$3\",\"ADD\",\"type=f32\",\"support\",\"1\",\"\",\"\""
echo "it broke" >&2
exit 3
END
cat >"$dir/bin/kernel-types" <<'END'
#!/bin/sh
echo ADD f32
END
mkdir -p "$dir/src/backend/npu"
echo '    {GGML_OP_CPY, x},' >"$dir/src/backend/npu/host-nodes.c"
echo '    {"ROLL", steps_roll},' >"$dir/src/backend/npu/steps.c"
chmod +x "$dir"/bin/*
echo old >"$dir/docs/ops.md"
if out=$(sh "$script" "$dir" "$dir/docs" 2>&1); then
    echo "test-ops-docs: half a list passes for a whole one: $out"
    exit 1
fi
case $out in *"it broke"*) ;; *) echo "test-ops-docs: the program's words are lost: $out"; exit 1 ;; esac
[ "$(cat "$dir/docs/ops.md")" = old ] || { echo "test-ops-docs: the page was written"; exit 1; }

# A whole list makes one, and it names the ops of ggml that the list has no case of.
cat >"$dir/bin/test-backend-ops" <<'END'
#!/bin/sh
echo "\"$3\",\"ADD\",\"type=f32\",\"support\",\"1\",\"\",\"\""
END
mkdir -p "$dir/include"
printf '        GGML_OP_NONE = 0,\n\n        GGML_OP_ADD,\n        GGML_OP_WIN_PART,\n        GGML_OP_COUNT,\n' \
    >"$dir/include/ggml.h"
out=$(sh "$script" "$dir" "$dir/docs" 2>&1) || { echo "test-ops-docs: no page: $out"; exit 1; }
grep -q '^WIN_PART\.$' "$dir/docs/ops.md" || { echo "test-ops-docs: WIN_PART is not named"; tail -n 5 "$dir/docs/ops.md"; exit 1; }
