#!/bin/sh
# man.sh <directory of the tools> <out>: writes the manual pages of the three tools to <out>, each from the tool's
# own --help: what a page says is what the tool says. `make man` keeps them in man/, a test compares.
set -eu
export LC_ALL=C
bin=$1
out=$2
mkdir -p "$out"

# roff: a text as it stands.
escape() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^\([.']\)/\\\\\&\1/"
}

verbatim() {
    echo ".nf"
    escape
    echo ".fi"
}

# page <tool> <one line> <beginnings of the variables that it reads, a basic regular expression>
page() {
    tool=$1
    version=$("$bin/$tool" --version | sed 's/.* //')
    {
        echo ".\\\" Made by cmake/man.sh from \`$tool --help\`: change that, and run \`make man\`."
        echo ".TH $(echo "$tool" | tr a-z A-Z) 1 \"\" \"ggml-hsa $version\" \"User Commands\""
        echo ".SH NAME"
        echo "$(echo "$tool" | escape) \\- $2"
        echo ".SH SYNOPSIS"
        "$bin/$tool" --help | sed -n '/^usage:/,/^$/p' | sed -e '/^$/d' -e 's/^usage: */       /' -e 's/^       //' | verbatim
        echo ".SH DESCRIPTION"
        "$bin/$tool" --help | sed '1,/^usage:/d' | sed '1,/^$/d' | verbatim
        subs=$("$bin/$tool" --help | sed -n '/SUBCOMMAND --help/,/--help  /s/^  \([a-z][a-z]*\)  .*/\1/p')
        [ -z "$subs" ] || echo ".SH SUBCOMMANDS"
        for sub in $subs; do
            echo ".SS $sub"
            "$bin/$tool" "$sub" --help | verbatim
        done
        echo ".SH ENVIRONMENT"
        "$bin/ggml-hsa" help environment | sed -n "/^\($3\)/{p;n;p;}" | verbatim
        echo ".SH SEE ALSO"
        for other in ggml-hsa ggml-hsa-gen-kernels rocm-kernels; do
            [ $other = "$tool" ] || echo ".BR $(echo $other | escape) (1)"
        done
        echo ".PP"
        echo "The documents of the project are installed in share/doc/ggml\\-hsa."
    } >"$out/$tool.1"
}

page ggml-hsa "tool of the ggml backend for AMD NPUs" "GGML"
page ggml-hsa-gen-kernels "makes NPU kernels ahead of time" "GGML_HSA_JIT\|GGML_HSA_RECORD\|GGML_HSA_KERNEL\|GGML_HSA_PRECISION"
page rocm-kernels "GPU kernels that are compiled once and kept" "CANDLE\|ROCM\|GGML_HSA_EMULATE"
