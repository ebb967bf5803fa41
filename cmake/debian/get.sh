#!/bin/sh
# get.sh <deps> <set>...: programs and libraries of other Debian releases than this machine's, each set
# with everything that it needs down to libc, unpacked into <deps>/debian/<set>, once; a second call
# returns at once. Nothing is installed, and this machine's apt keeps its state: the packages are looked up
# in directories of our own, and the mirror is the one that this machine's own apt uses.
#
#   <deps>/debian/<set>/usr           the packages' files
#   <deps>/debian/<set>/lib           where their libraries are
#   <deps>/debian/<set>/ld.so         their dynamic linker
#   <deps>/debian/<set>/packages      their names and versions
#   <deps>/debian/<set>/run           runs a program with that linker and those libraries:
#                                     run [-l <directories with libraries that come first>] <program> ...
#
# Exit status 77: no apt, no mirror, or the mirror does not have the packages; the last line says which.
set -eu

# What a set has: its suite, its packages, and which packages come from another suite (name/suite).
set_of() {
    case $1 in
    rocr) echo sid rocminfo libhsa-runtime64-1/experimental ;;
    hip5) echo trixie libamdhip64-5 ;;
    blas5) echo trixie librocblas0 librocblas0-tests libamdhip64-5 ;;
    blas7)
        echo sid librocblas5/experimental libamdhip64-7/experimental libamd-comgr3/experimental \
            libhsa-runtime64-1/experimental libroctx64-4/experimental
        ;;
    rand5) echo trixie librocrand1-tests libamdhip64-5 ;;
    prim5) echo trixie librocprim-tests libamdhip64-5 ;;
    cub5) echo trixie libhipcub-tests libamdhip64-5 ;;
    thrust5) echo trixie librocthrust-tests libamdhip64-5 ;;
    fft6) echo trixie librocfft0-tests libamdhip64-5 ;;
    hip6) echo sid libamdhip64-6 ;;
    hip7) echo sid libamdhip64-7/experimental libamd-comgr3/experimental libhsa-runtime64-1/experimental ;;
    ggml) echo sid libggml0 libggml0-backend-rpc llama.cpp-tools llama.cpp-tools-extra llama.cpp-tests libjansson4 ;;
    whisper) echo sid whisper.cpp-tools libggml0 ;;
    *) return 1 ;;
    esac
}

if [ $# -lt 2 ]; then
    echo "usage: get.sh <deps> rocr|hip5|hip6|hip7|blas5|blas7|rand5|prim5|cub5|thrust5|fft6|ggml|whisper..." >&2
    exit 2
fi
mkdir -p "$1/debian"
root=$(cd "$1/debian" && pwd)
shift

skip() {
    echo "debian/get.sh: $*" >&2
    exit 77
}

# ---- apt, with nothing of this machine's but its mirror and its keys ----

# The archive that this machine's own release came from.
mirror() {
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk -v name="$codename" '$1 == name && $2 == "main" { print $3; exit }'
}

# prepare <suite> <package>...: sources, preferences and lists for one set.
prepare() {
    apt=$root/apt
    mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/none"
    : >"$apt/status"
    suites=$1
    : >"$apt/preferences"
    shift
    for package in "$@"; do
        case $package in
        */*)
            suites="$suites ${package#*/}"
            printf 'Package: %s\nPin: release a=%s\nPin-Priority: 990\n\n' \
                "${package%/*}" "${package#*/}" >>"$apt/preferences"
            ;;
        esac
    done
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keys" ] && signed="[signed-by=$keys]" || signed=
    # shellcheck disable=SC2086
    for suite in $(printf '%s\n' $suites | sort -u); do
        echo "deb $signed $uri $suite main"
    done >"$apt/sources.list"
    cat >"$apt/conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/none";
Dir::Etc::preferences "$apt/preferences";
Dir::Etc::preferencesparts "$apt/none";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
APT::Get::List-Cleanup "false";
Acquire::Retries "2";
APT::Update::Error-Mode "any";
APT::Sandbox::User "$(id -un)";
APT::Install-Recommends "false";
END
    APT_CONFIG=$apt/conf apt-get -q update >"$log" 2>&1
}

# ---- one set ----

write_run() {
    cat >"$1/run" <<'END'
#!/bin/sh
# run [-l <directories>] <program> <arguments>: a program with the libraries of this set and of no other.
here=$(cd "$(dirname "$0")" && pwd)
first=
if [ "$1" = -l ]; then
    first=$2:
    shift 2
fi
program=$1
shift
case $program in
*/*) ;;
*) program=$here/usr/bin/$program ;;
esac
libs=$here/lib
for private in "$here"/lib/*/lib*.so; do # which programs name by the place where they would be installed
    case $libs in
    *"${private%/*}"*) ;;
    *) libs=$libs:${private%/*} ;;
    esac
done
exec "$here/ld.so" --inhibit-cache --library-path "$first$libs" "$program" "$@"
END
    chmod +x "$1/run"
    libc=$(find "$1/usr/lib" -name libc.so.6)
    linker=$(find "$1/usr" -name 'ld-linux*.so.*' | head -n 1)
    [ -n "$libc" ] && [ -n "$linker" ] || return 1
    libc=$(dirname "$libc")
    ln -s "${libc#"$1"/}" "$1/lib"
    ln -s "${linker#"$1"/}" "$1/ld.so"
}

get() {
    name=$1
    shift
    tree=$root/$name
    log=$root/$name.log
    [ "$(cat "$tree/.stamp" 2>/dev/null)" = "$*" ] && return 0
    for tool in apt-get dpkg-deb; do
        command -v $tool >/dev/null || skip "$name: there is no $tool here"
    done
    uri=$(mirror)
    [ -n "$uri" ] || skip "$name: this machine's apt names no mirror"
    echo "-- debian: $*"
    prepare "$@" || skip "$name: the mirror cannot be read, see $log"
    names=
    shift
    for package in "$@"; do
        names="$names ${package%/*}"
    done
    rm -f "$apt"/cache/archives/*.deb
    # shellcheck disable=SC2086
    APT_CONFIG=$apt/conf apt-get -qy --download-only install $names >>"$log" 2>&1 ||
        skip "$name: the mirror does not have the packages, see $log"
    rm -rf "$tree" "$tree.part"
    mkdir "$tree.part"
    for deb in "$apt"/cache/archives/*.deb; do
        dpkg-deb -x "$deb" "$tree.part"
        # shellcheck disable=SC2016
        dpkg-deb -W --showformat '${Package} ${Version}\n' "$deb" >>"$tree.part/packages"
    done
    rm -f "$apt"/cache/archives/*.deb
    rm -rf "$tree.part/usr/share/doc" "$tree.part/usr/share/locale" "$tree.part/usr/share/man"
    write_run "$tree.part" || skip "$name: no dynamic linker among the packages"
    echo "$suite_and_packages" >"$tree.part/.stamp"
    mv "$tree.part" "$tree"
    echo "-- debian: ready in $tree"
}

for name in "$@"; do
    suite_and_packages=$(set_of "$name") || {
        echo "debian/get.sh: there is no set '$name'" >&2
        exit 2
    }
    # shellcheck disable=SC2086
    get "$name" $suite_and_packages
done
