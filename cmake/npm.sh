#!/bin/sh
# npm.sh <package>@<version> <file>: the tarball of an npm package into a file. npm itself is not needed, and is
# never installed for it: on Debian it brings 336 packages. The caller knows the content's SHA-256 and looks.
#
# npm is asked where it is there, for it knows proxies and passwords. Else curl or wget ask the registry that
# npm would ask: the one that npm_config_registry or an npmrc names, or npm's own default, which is read in
# Debian's package of npm (half a megabyte, and not installed).
set -eu
package=$1
file=$2
name=${package%@*}
version=${package##*@}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if command -v npm >/dev/null; then
    if (cd "$work" && npm pack --silent "$package" >/dev/null) && mv "$work"/*.tgz "$file"; then
        exit 0
    fi
    echo "npm.sh: npm could not fetch $package; trying without it" >&2
fi

if command -v curl >/dev/null; then
    get() { curl -fsSL --retry 2 -o "$2" "$1"; }
elif command -v wget >/dev/null; then
    get() { wget -q -O "$2" "$1"; }
else
    echo "npm.sh: $package: neither npm nor curl nor wget is here; install curl" >&2
    exit 1
fi

default_registry() {
    mkdir "$work/debs"
    (cd "$work/debs" && apt-get -qq download npm) >/dev/null 2>&1 ||
        sh "$here/debs.sh" "$(dpkg --print-architecture)" "$work/debs" npm >&2 || return 1
    dpkg-deb --fsys-tarfile "$work"/debs/npm_*.deb |
        tar xO --wildcards '*/npm/lib/utils/config/definitions.js' |
        sed -n "/^define('registry'/,/^})/s/^ *default: '\(.*\)',/\1/p"
}

registry=${npm_config_registry:-${NPM_CONFIG_REGISTRY:-}}
for rc in "${HOME:-/}/.npmrc" /etc/npmrc /usr/etc/npmrc; do
    [ -z "$registry" ] && [ -r "$rc" ] || continue
    registry=$(sed -n 's/^ *registry *= *"\{0,1\}\([^" ]*\).*/\1/p' "$rc" | tail -n 1)
done
[ -n "$registry" ] || registry=$(default_registry || true)
if [ -z "$registry" ]; then
    echo "npm.sh: $package: no registry is known here; set npm_config_registry=<its address> or install npm" >&2
    exit 1
fi
# A package of a scope, @scope/name, has a file without it.
if ! get "${registry%/}/$name/-/${name##*/}-$version.tgz" "$work/tgz"; then
    echo "npm.sh: $package: the registry does not give it" >&2
    exit 1
fi
mv "$work/tgz" "$file"
