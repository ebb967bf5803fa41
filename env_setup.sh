# source env_setup.sh [directory]
#
# Makes the current shell an IRON environment, in which GGML_HSA_JIT_COMMAND can be a kernel compiler
# that is written in Python. The first time it makes a virtual environment (in the directory given, in
# GGML_HSA_IRON_ENV, or else in .iron beside this file) and installs requirements.txt into it; later it only
# activates it. ggml-hsa itself does not need it: its own compiler needs neither Python nor LLVM.
#
# Needs Python 3.10 or later, x86-64 with glibc 2.35 or later, and a network. Asks for no rights.

_ggml_hsa_say() {
    echo "env_setup.sh: $*" >&2
}

_ggml_hsa_setup() {
    local here env site # every shell of today has it
    if [ -n "${BASH_SOURCE:-}" ]; then
        here=${BASH_SOURCE[0]}
    elif [ -n "${ZSH_VERSION:-}" ]; then
        eval 'here=${(%):-%x}'
    else
        here=./env_setup.sh # a plain sh does not tell which file it reads
    fi
    here=$(cd "$(dirname "$here")" && pwd) || return 1
    if [ ! -f "$here/requirements.txt" ]; then
        _ggml_hsa_say "requirements.txt is not beside it; in a plain sh, go to its directory first"
        return 1
    fi
    env=${1:-${GGML_HSA_IRON_ENV:-$here/.iron}}

    if [ ! -x "$env/bin/python3" ]; then
        if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            _ggml_hsa_say "Python 3.10 or later is needed; $(python3 --version 2>&1 || echo 'there is no python3')"
            return 1
        fi
        _ggml_hsa_say "making a virtual environment in $env"
        if ! python3 -m venv "$env"; then
            rm -rf "${env:?}/bin" # half an environment must not look like one
            _ggml_hsa_say "python3 -m venv failed; on Debian and Ubuntu install python3-venv"
            return 1
        fi
    fi

    # The stamp says which requirements are installed.
    if ! cmp -s "$here/requirements.txt" "$env/.ggml-hsa-requirements"; then
        _ggml_hsa_say "installing mlir-aie and llvm-aie (several hundred megabytes)"
        if ! "$env/bin/python3" -m pip install --disable-pip-version-check --quiet --timeout 30 --retries 2 \
            -r "$here/requirements.txt"; then
            _ggml_hsa_say "pip could not install the IRON wheels. They come from github.com and pypi.org, for x86-64"
            _ggml_hsa_say "Linux with glibc 2.35 or later: check the network, a proxy (HTTPS_PROXY), and this machine"
            _ggml_hsa_say "($(uname -m)). Wheels from elsewhere: PIP_FIND_LINKS=<directory> source env_setup.sh."
            _ggml_hsa_say "ggml-hsa works without them, with its own compiler and with kernel packs."
            return 1
        fi
        cp "$here/requirements.txt" "$env/.ggml-hsa-requirements"
    fi

    # shellcheck disable=SC1091
    . "$env/bin/activate" || return 1
    site=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["platlib"])') || return 1
    # Where the tools of the two wheels look for each other.
    export MLIR_AIE_INSTALL_DIR="$site/mlir_aie"
    export PEANO_INSTALL_DIR="$site/llvm-aie"
    case ":$PATH:" in
    *":$MLIR_AIE_INSTALL_DIR/bin:"*) ;;
    *) export PATH="$MLIR_AIE_INSTALL_DIR/bin:$PATH" ;;
    esac
    case ":${PYTHONPATH:-}:" in
    *":$MLIR_AIE_INSTALL_DIR/python:"*) ;;
    *) export PYTHONPATH="$MLIR_AIE_INSTALL_DIR/python${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
    if ! python3 -c 'import aie' 2>/dev/null; then
        _ggml_hsa_say "the wheels are installed, but 'import aie' fails: see python3 -c 'import aie'"
        return 1
    fi
    _ggml_hsa_say "IRON environment $env is active; now set GGML_HSA_JIT_COMMAND, e.g."
    _ggml_hsa_say "  export GGML_HSA_JIT_COMMAND=\"python3 <kernels>/build.py\""
}

case ${0##*/} in
env_setup.sh)
    _ggml_hsa_say "it changes the shell it runs in; call it as: source env_setup.sh"
    exit 1
    ;;
esac
_ggml_hsa_setup "$@"
_ggml_hsa_status=$?
unset -f _ggml_hsa_setup _ggml_hsa_say
eval "unset _ggml_hsa_status; return $_ggml_hsa_status"
