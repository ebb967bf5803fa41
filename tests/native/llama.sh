#!/bin/sh
# llama.sh <build> <llama bin> <model>: stock llama.cpp writes the same text on our own runtime and the played NPU
# driver as on the CPU; see tests/llama/compare.sh, which does the comparing, for TOKENS and the others. Ends with 77
# where a part is missing.
set -eu

build=$(cd "$1" && pwd)
llama=$2
model=$3
here=$(cd "$(dirname "$0")" && pwd)

for file in "$llama/llama-completion" "$model"; do
    if [ ! -r "$file" ]; then
        echo "skipped: there is no '$file'; \`make llama\` makes the program, and MODEL=<file> names the model"
        exit 77
    fi
done
llama=$(cd "$llama" && pwd)
model=$(cd "$(dirname "$model")" && pwd)/${model##*/}

# compare.sh calls programs by their name, so each is a script here that runs it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cat >"$work/llama-completion" <<END
#!/bin/sh
exec sh "$here/run.sh" "$build" -C "$llama" "$llama/llama-completion" "\$@"
END
cat >"$work/llama-quantize" <<END
#!/bin/sh
exec "$llama/llama-quantize" "\$@"
END
chmod +x "$work/llama-completion" "$work/llama-quantize"
GGML_HSA_EMULATE='' sh "$here/../llama/compare.sh" "$work" "$build/bin/libggml-hsa.so" "$model"
