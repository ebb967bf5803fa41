#!/bin/sh
# rooms.sh <source directory>: the table of cmake/Rooms.cmake by layers. A room lies one layer above the highest that
# it knows.
set -eu
sed -n 's/^ *"\([a-z/]*\): *\([a-z/ ]*\)")*$/\1:\2/p' "$1/cmake/Rooms.cmake" | awk -F: '
    {
        n = split($2, knows, " ")
        level = n ? 0 : -1
        for (i = 1; i <= n; i++) {
            if (layer[knows[i]] > level) level = layer[knows[i]]
        }
        layer[$1] = level + 1
        if (layer[$1] > deepest) deepest = layer[$1]
        at[layer[$1]] = at[layer[$1]] (n ? sprintf("%2d  %-15s --> %s\n", layer[$1], $1, $2) : sprintf("%2d  %s\n", layer[$1], $1))
    }
    END { for (i = deepest; i >= 0; i--) printf "%s", at[i] }'
