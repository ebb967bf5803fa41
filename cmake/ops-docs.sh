#!/bin/sh
# ops-docs.sh <build> <docs>: writes <docs>/ops.csv and <docs>/ops.md, the ops that the plugin in <build>
# has, from what it answers to ggml's own list of cases (test-backend-ops support). Equal sources and an
# equal ggml give equal files.
set -eu
export LC_ALL=C
build=$1
docs=$2
bin=$(sed -n 's/^GGML_BIN_DIR:PATH=//p' "$build/CMakeCache.txt")
sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -x "$bin/test-backend-ops" ]; then
    echo "ops-docs.sh: there is no test-backend-ops in '$bin'; \`make setup\` builds one" >&2
    exit 1
fi

# support <plugin> <device> <emulated>: the sorted cases of a device, without the heading. No pipe: it would
# hide that the program failed half way, and half a list looks like a whole one.
support() {
    if ! GGML_BACKEND_PATH=$1 GGML_HSA_EMULATE=$3 GGML_HSA_HOST_FALLBACK=0 \
        "$bin/test-backend-ops" support -b "$2" --output csv >"$work/rows" 2>"$work/log"; then
        cat "$work/log" >&2
        echo "ops-docs.sh: test-backend-ops failed on $2 ${3:+(emulated $3)}" >&2
        exit 1
    fi
    grep "^\"$2\"," "$work/rows" | sort
}

support "$build/bin/libggml-hsa.so" HSA0 aie2 >"$work/hsa"
support "$build/bin/libggml-hsa.so" HSA0 gfx1100 >"$work/gpu"
support "" CPU "" >"$work/cpu"
if grep -q 'cannot be made' "$work/log" || ! grep -q '"ADD",.*"1"' "$work/gpu"; then
    echo "ops-docs.sh: no compiler for GPU kernels; \`rocm-kernels info\` says more" >&2
    exit 1
fi
"$build/bin/kernel-types" >"$work/kernels"
# The ops of the table in host-nodes.c.
sed -n 's/^    {GGML_OP_\([A-Z_]*\), .*/\1/p' "$sources/src/backend/npu/host-nodes.c" >"$work/host"
# Those of the table in steps.c, but for sorting, of which a core does short rows alone.
sed -n '/steps_sort/d; s/^    {"\([A-Z0-9_]*\)", steps_.*/\1/p' "$sources/src/backend/npu/steps.c" >"$work/steps"
# The ops of ggml, but for views and for those that stand for a family.
sed -n 's/^ *GGML_OP_\([A-Z0-9_]*\),.*/\1/p; s/^ *GGML_OP_\([A-Z0-9_]*\) = 0,.*/\1/p' "$bin/../include/ggml.h" |
    grep -v -x -E 'NONE|RESHAPE|VIEW|PERMUTE|TRANSPOSE|UNARY|GLU|COUNT|POOL_MAX|POOL_AVG|POOL_COUNT' >"$work/ops" || true
for file in hsa gpu cpu kernels host steps ops; do
    [ -s "$work/$file" ] || { echo "ops-docs.sh: nothing to read for '$file'" >&2; exit 1; }
done

{
    echo '"backend_name","op_name","op_params","test_mode","supported","error_message","backend_reg_name"'
    cat "$work/hsa"
} >"$work/ops.csv"

# Fields of a line, split at the quotes: 4 is the op, 6 its parameters, 10 whether it is supported.
awk -F'"' -v kernels="$work/kernels" -v host="$work/host" -v steps="$work/steps" -v cpu="$work/cpu" -v gpu="$work/gpu" \
    -v ops="$work/ops" '
function note_types(op, params,    rest, t) {
    rest = params
    while (match(rest, /type[a-z_]*=[A-Za-z0-9_]+/)) {
        t = substr(rest, RSTART, RLENGTH)
        sub(/.*=/, "", t)
        if (t !~ /^(avg|max|[0-9]+)$/ && !((op, t) in seen)) { # of a pool, of a triangle
            seen[op, t] = 1
            types[op] = types[op] " " t
        }
        rest = substr(rest, RSTART + RLENGTH)
    }
}
function row(op, where, datatypes) {
    sub(/^ /, "", datatypes)
    printf "| %s | %s | %s | %d | %d |\n", op, where, datatypes, ours[op], theirs[op]
}
function gpu_row(op) {
    sub(/^ /, "", types["GPU " op])
    printf "| %s | %s | %d | %d |\n", op, types["GPU " op], gpu_cases[op], theirs[op]
}
BEGIN {
    while ((getline line < kernels) > 0) {
        name = line
        sub(/ .*/, "", name)
        order[++n] = name
        datatypes[name] = substr(line, length(name) + 1)
    }
    while ((getline line < host) > 0) {
        on_host[line] = 1
        host_order[++n_host] = line
    }
    while ((getline line < steps) > 0) {
        on_host[line] = 1 # datatypes are those of the cases, too
        step_order[++n_steps] = line
    }
    why["LIGHTNING_INDEXER"] = why["DSV4_HC_COMB"] = why["DSV4_HC_PRE"] = why["DSV4_HC_POST"] = "of one model"
    while ((getline line < ops) > 0) {
        all_ops[++n_ops] = line
    }
    FS = "\""
    while ((getline < cpu) > 0) {
        if (!($4 in theirs)) {
            cpu_order[++n_cpu] = $4
        }
        has_case[$4] = 1
        theirs[$4] += $10 == "1"
        case_of_cpu[$4, $6] = $10 == "1"
    }
    while ((getline < gpu) > 0) {
        if ($10 == "1" && case_of_cpu[$4, $6]) {
            if (!gpu_cases[$4]++) {
                gpu_order[++n_gpu] = $4
            }
            note_types("GPU " $4, $6)
        }
    }
}
{
    ours[$4] += $10 == "1" && case_of_cpu[$4, $6]
    if ($10 == "1" && $4 in on_host) {
        note_types($4, $6)
    }
}
END {
    print "# Ops"
    print ""
    print "Which ops of a ggml graph the plugin computes itself, and where. `make ops-docs` writes this page, and"
    print "`ops.csv` with every single case, from the answers of the plugin and of ggml'\''s CPU backend to the cases of"
    print "`test-backend-ops support`. The cases of ggml have no bf16 and no integer arithmetic; the datatypes of a"
    print "kernel are those that the compiler has it for. Cases are counted that the CPU backend has too."
    print ""
    print "## On the NPU"
    print ""
    print "| op | runs on | datatypes of the kernel | cases | of |"
    print "| --- | --- | --- | ---: | ---: |"
    for (i = 1; i <= n; i++) {
        row(order[i], "NPU", datatypes[order[i]] == "" ? "none yet" : datatypes[order[i]])
    }
    row("MUL_MAT_ID", "NPU", "as MUL_MAT")
    row("OUT_PROD", "NPU", "as MUL_MAT")
    row("ADD_ID", "NPU", "f32")
    row("TOP_K", "NPU", "as ARGSORT")
    row("ROPE", "NPU", "f32, f16 by way of it")
    row("ROPE_BACK", "NPU", "f32, f16 by way of it")
    print ""
    print "Operands of matrix products in other types, quantized ones too, are brought to bf16 first."
    print "SUM over rows that are not contiguous is refused, as by ggml'\''s CUDA, Vulkan, SYCL and Metal: the CPU takes"
    print "them for contiguous ones, so that there is no result to agree with."
    print "Rows of ARGSORT and TOP_K beyond 2048 elements are steps, as below: parts are sorted, then merged, in rows of"
    print "up to 1048576."
    print ""
    print "## Made of steps"
    print ""
    print "Copies by descriptors, and the kernels above on views of sources, results and memory in between"
    print "([new op](new-op.md#an-op-made-of-steps)). The host computes nothing of them. States that go on from token to"
    print "token take a dozen of kernels for each of them, rows of SOLVE_TRI four. The states of SSM_SCAN and the rows of"
    print "GET_ROWS_BACK are found by an index, which the host reads."
    print ""
    print "| op | runs on | datatypes in the cases | cases | of |"
    print "| --- | --- | --- | ---: | ---: |"
    for (i = 1; i <= n_steps; i++) {
        row(step_order[i], "NPU", types[step_order[i]] == "" ? "f32" : types[step_order[i]])
    }
    print ""
    print "## Moved about"
    print ""
    print "| op | runs on | datatypes in the cases | cases | of |"
    print "| --- | --- | --- | ---: | ---: |"
    for (i = 1; i <= n_host; i++) {
        row(host_order[i], "NPU or host", types[host_order[i]])
    }
    print ""
    print "On the NPU where whole words move: datatypes that stay what they are, and f32 to and from f16 and bf16, with"
    print "rows of whole words; strides of 32-bit elements may be anything. The host does the rest: what becomes"
    print "quantized or was, i32 to and from f32, f16 to bf16, elements of 16 bits that lie apart or in rows of an odd"
    print "number, and rows by an index that names more than 256 runs of rows."
    print "Views (NONE, RESHAPE, VIEW, PERMUTE, TRANSPOSE) cost nothing. With `GGML_HSA_HOST_FALLBACK=1` all other ops of"
    print "a graph go to a CPU backend inside the plugin."
    print ""
    print "## On the CPU"
    print ""
    print "What ggml has cases of, and no kernel of the NPU computes."
    print ""
    print "| op | cases | why |"
    print "| --- | ---: | --- |"
    for (i = 1; i <= n_cpu; i++) {
        op = cpu_order[i]
        if (theirs[op] && !ours[op]) {
            printf "| %s | %d | %s |\n", op, theirs[op], op in why ? why[op] : "no kernel yet"
        }
    }
    print ""
    print "## On a GPU"
    print ""
    print "| op | datatypes in the cases | cases | of |"
    print "| --- | --- | ---: | ---: |"
    for (i = 1; i <= n_gpu; i++) {
        gpu_row(gpu_order[i])
    }
    print ""
    print "The rest is of types that no kernel has, or of 8 and 16 bit integers. Names of several ops are graphs of these."
    print ""
    print "## Without a case"
    print ""
    print "`test-backend-ops` has no case of these, so that no table counts them:"
    line = ""
    for (i = 1; i <= n_ops; i++) {
        if (!has_case[all_ops[i]]) {
            if (length(line) + length(all_ops[i]) > 110) {
                print line ","
                line = ""
            }
            line = line (line == "" ? "" : ", ") all_ops[i]
        }
    }
    print line "."
}' "$work/hsa" >"$work/ops.md"

mv "$work/ops.csv" "$docs/ops.csv"
mv "$work/ops.md" "$docs/ops.md"
