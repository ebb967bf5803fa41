#!/bin/sh
# llama.sh <build> <rocr> <llama bin> <model>: stock llama.cpp writes the same text on AMD's ROCr and the
# played NPU driver as on the CPU; see tests/llama/compare.sh, which does the comparing, for TOKENS and the
# others. Ends with 77 where a part is missing.
set -eu

build=$(cd "$1" && pwd)
rocr=$2
llama=$3
model=$4
here=$(cd "$(dirname "$0")" && pwd)

for file in "$rocr/ld.so" "$llama/llama-completion" "$model"; do
    if [ ! -r "$file" ]; then
        echo "llama.sh: there is no '$file'; \`make test-rocr llama\` makes the first two, and" \
            "MODEL=<file> names the model" >&2
        exit 77
    fi
done
rocr=$(cd "$rocr" && pwd)
llama=$(cd "$llama" && pwd)

# compare.sh calls programs by their name, so each is a script here that runs it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$work/llama-completion" <<END
#!/bin/sh
exec sh "$here/run.sh" "$build" "$rocr" -C "$llama" "$llama/llama-completion" "\$@"
END
cat >"$work/llama-quantize" <<END
#!/bin/sh
exec "$llama/llama-quantize" "\$@"
END
chmod +x "$work/llama-completion" "$work/llama-quantize"
GGML_HSA_EMULATE='' sh "$here/../../llama/compare.sh" "$work" "$build/bin/libggml-hsa.so" "$model"
