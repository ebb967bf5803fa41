# log.awk: what a run of llama-completion computed, read from its log (-v, GGML_SCHED_DEBUG=2). Prints
#
#   speed <tokens/s>                 of the generated tokens
#   matmul <on the device> <of>      how many MUL_MAT and MUL_MAT_ID nodes the scheduler gave to `device`
#   elsewhere <node> <backend>       each that it gave to another one, once
#   piece <token> <bytes>            how long the text is up to and with this token; 0 is the prompt
#
# In such a log the generated text stands between the messages, each of which opens with a time and
# a letter: a token follows the message "n_remain", the prompt follows "embd_inp.size()", and either
# ends where the next message starts. Graphs that are only measured come before "generate:"; a graph
# that is used again is not divided again.

function flush_piece() {
    if (reading) {
        printf "piece %d %d\n", token, bytes
        reading = 0
    }
}

BEGIN {
    message = "[0-9]+\\.[0-9][0-9]\\.[0-9][0-9][0-9]\\.[0-9][0-9][0-9] [A-Z] "
    matmul = on_device = 0
}

reading {
    if (match($0, message)) {
        bytes += RSTART - 1
        flush_piece()
    } else {
        bytes += length($0) + 1
    }
}

/ I generate: n_ctx = / { started = 1 }

started && / D embd_inp\.size\(\): / { reading = 1 }

started && / D n_remain: / {
    token++
    reading = 1
}

started && / D node #[ 0-9]+\( *MUL_MAT(_ID)?\): / {
    rest = $0
    sub(/^.* D node #[ 0-9]+\( *MUL_MAT(_ID)?\): */, "", rest)
    name = rest
    sub(/ \( *[0-9]+[KM]\) .*/, "", name)
    sub(/^[^[]*\[ */, "", rest)
    sub(/[] ].*/, "", rest)
    matmul++
    if (rest == device) {
        on_device++
    } else if (!((name, rest) in named)) {
        named[name, rest] = 1
        printf "elsewhere %s %s\n", name, rest
    }
}

/ eval time = / && !/prompt eval time/ {
    rest = $0
    sub(/ tokens per second.*/, "", rest)
    sub(/.* /, "", rest)
    printf "speed %s\n", rest
}

END {
    flush_piece()
    printf "matmul %d %d\n", on_device, matmul
}
