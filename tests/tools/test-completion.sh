#!/bin/bash
# test-completion.sh <completions> <directory of the tools>: what bash offers, by the file that is installed; zsh's
# file is only read, where there is a zsh.
set -eu
files=$1
bin=$2
failed=0
# shellcheck disable=SC1091
. "$files/ggml-hsa.bash"

# offers <wanted words> <words of the line; the last is what stands there>
offers() {
    local wanted=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _ggml_hsa "$bin/$1"
    for word in $wanted; do
        if ! printf '%s\n' "${COMPREPLY[@]}" | grep -qxF -- "$word"; then
            echo "'$*': '$word' is not offered, but: ${COMPREPLY[*]}"
            failed=1
        fi
    done
}

offers "info doctor cache inspect model --version" ggml-hsa ""
offers "--context --arch --range --count --layers --whole --json" ggml-hsa model --
offers "doctor" ggml-hsa doc
offers "validate" ggml-hsa val
offers "--device --only --rest --json --html --clock" ggml-hsa validate --
offers "quick whole" ggml-hsa validate ""
offers "--json --report --root --help" ggml-hsa doctor --
offers "--stats" ggml-hsa inspect --st
offers "--svg --from --to --passes --verify --operands" ggml-hsa inspect --
offers "built dependences schedule loops bundles bytes" ggml-hsa inspect --passes ADD f32 1024 --pass ""
offers "--compare --clock --range --json" ggml-hsa bench --
offers "stat list verify trim clear why" ggml-hsa cache ""
offers "aie2 aie2p" ggml-hsa cache why x --arch ""
offers "--config --output-dir --record --dry-run" ggml-hsa-gen-kernels --
offers "aie2p" ggml-hsa-gen-kernels --arch aie2p
offers "info list compile run cache" rocm-kernels ""
offers "--all --arch --jobs --json" rocm-kernels compile --
offers "unary_f32 matmul_q4_K" rocm-kernels compile ""
offers "gfx1100 all" rocm-kernels compile --arch ""
offers "verify" rocm-kernels cache ver
offers "ADD MUL_MAT SOFT_MAX FLASH_ATTN_EXT" ggml-hsa bench ""
offers "RMS_NORM" ggml-hsa bench rms
offers "f32 q4_0 q6_K" ggml-hsa bench MUL_MAT ""
offers "MUL" ggml-hsa inspect --passes MU
offers "bf16" ggml-hsa inspect --passes ADD b
(cd "$(mktemp -d)" && touch a.gguf a.txt && offers "a.gguf" ggml-hsa model a && [ ${#COMPREPLY[@]} = 1 ] && rm -r "$PWD") || failed=1
cd "$files"
offers "ggml-hsa.bash" ggml-hsa-gen-kernels --config gg

# The same of zsh, whose functions that offer words are played by ones that print them.
zsh_offers() {
    local wanted=$1
    shift
    PATH=$bin:$PATH zsh -f -c '
        compadd() { if [[ $1 == -a ]]; then print -l -- ${(P)2}; else print -l -- $@; fi }
        _describe() { print -l -- ${(P)2%%:*} }
        _files() { }
        completion() { source $1 }
        file=$1; shift
        words=("$@") CURRENT=$# PREFIX=$words[-1]
        completion $file' zsh "$files/_ggml-hsa" "$@" >offered
    for word in $wanted; do
        grep -qxF -- "$word" offered || { echo "zsh, '$*': '$word' is not offered, but: $(tr '\n' ' ' <offered)"; failed=1; }
    done
}
if command -v zsh >/dev/null; then
    cd "$(mktemp -d)"
    zsh_offers "info doctor cache inspect" ggml-hsa ""
    zsh_offers "--json --report" ggml-hsa doctor --
    zsh_offers "stat verify why" ggml-hsa cache ""
    zsh_offers "schedule bytes" ggml-hsa inspect --passes ADD f32 1024 --pass ""
    zsh_offers "ADD MUL_MAT" ggml-hsa bench ""
    zsh_offers "f32 q4_0" ggml-hsa bench MUL_MAT ""
    zsh_offers "bf16" ggml-hsa inspect --passes ADD ""
    zsh_offers "--config --record" ggml-hsa-gen-kernels --
    zsh_offers "aie2p" ggml-hsa-gen-kernels --arch ""
    zsh_offers "compile run" rocm-kernels ""
    zsh_offers "unary_f32" rocm-kernels list ""
    rm -r "$PWD"
else
    echo "not looked at: zsh's completion (no zsh)"
fi
exit $failed
