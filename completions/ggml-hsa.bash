# bash completion for ggml-hsa, ggml-hsa-gen-kernels and rocm-kernels. Subcommands and options are those that the
# tool's own --help names, so that there is nothing here to keep up with it.

_ggml_hsa_words() { # the first words of the help's indented lines: subcommands
    "$@" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort -u
}

_ggml_hsa_options() {
    "$@" --help 2>/dev/null | grep -oE -e '--[a-z][a-z-]*' | sort -u
}

# What the tool names where an op or a datatype is none: "ops: ADD SUB ..., and ..."
_ggml_hsa_listed() { # <tool> <ops or types>
    local words=(bench x x 1)
    [[ $2 == ops ]] || words=(bench MUL_MAT x 1)
    "$1" "${words[@]}" 2>&1 | sed -n "s/^$2: \([^,]*\).*/\1/p"
}

# Which operand it is: ops first, then datatypes. The words behind <from> that are no options count.
_ggml_hsa_operand() { # <tool> <from> <word>
    case $((COMP_CWORD - $2)) in
    1) mapfile -t COMPREPLY < <(compgen -W "$(_ggml_hsa_listed "$1" ops)" -- "${3^^}") ;;
    2) mapfile -t COMPREPLY < <(compgen -W "$(_ggml_hsa_listed "$1" types)" -- "$3") ;;
    esac
}

_ggml_hsa() {
    local tool=$1 word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} sub= i
    COMPREPLY=()
    case $before in
    --config | --record | --output-dir | --root | --compiler | --html | --llama)
        compopt -o filenames 2>/dev/null || : # asked by a test there is no completion to change
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --pass)
        mapfile -t COMPREPLY < <(compgen -W "built dependences schedule loops bundles bytes" -- "$word")
        return
        ;;
    --arch)
        case $tool in
        *rocm-kernels) mapfile -t COMPREPLY < <(compgen -W "all gfx908 gfx90a gfx942 gfx1100 gfx1101 gfx1102" -- "$word") ;;
        *) mapfile -t COMPREPLY < <(compgen -W "aie2 aie2p" -- "$word") ;;
        esac
        return
        ;;
    esac
    case $tool in
    *gen-kernels) ;;
    *)
        if ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W "$(_ggml_hsa_words "$tool") --help --version" -- "$word")
            return
        fi
        sub=${COMP_WORDS[1]}
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_ggml_hsa_options "$tool" $sub) --help" -- "$word")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == --passes ]] && ((COMP_CWORD - i <= 2)); then
            _ggml_hsa_operand "$tool" "$i" "$word"
            return
        fi
    done
    case "${tool##*/} $sub" in
    "ggml-hsa bench")
        _ggml_hsa_operand "$tool" 1 "$word"
        ;;
    "ggml-hsa model")
        compopt -o filenames 2>/dev/null || :
        mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- "$word"; compgen -d -- "$word")
        ;;
    "ggml-hsa cache" | "rocm-kernels cache")
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "$(_ggml_hsa_words "$tool" cache)" -- "$word")
        fi
        ;;
    "ggml-hsa validate")
        mapfile -t COMPREPLY < <(compgen -W "quick whole" -- "$word")
        ;;
    "rocm-kernels list" | "rocm-kernels compile" | "rocm-kernels run")
        mapfile -t COMPREPLY < <(compgen -W "$("$tool" list 2>/dev/null | sed -n 's/^\([a-z0-9_K]*\) .* kernels$/\1/p')" -- "$word"
            [[ $sub == compile ]] && compgen -f -X '!*.hip' -- "$word")
        ;;
    *)
        compopt -o filenames 2>/dev/null || : # asked by a test there is no completion to change
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
    esac
}

complete -F _ggml_hsa ggml-hsa ggml-hsa-gen-kernels rocm-kernels
