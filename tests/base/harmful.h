// harmful: what a text of others may do to the terminal or the log that it is shown in, as bytes of
// a name, a variable or a file.
#pragma once

#include <stdbool.h>
#include <string.h>

// Escapes of seven and eight bits, a carriage return over what was said, marks that turn the
// reading direction round, separators of lines, and a line that looks like one of ours.
#define HARMFUL                                                                                    \
    "\x1b[31m\x1b]0;t\x07\xc2\x9b"                                                                 \
    "2J\r\b\x7f\xe2\x80\xae"                                                                       \
    "cba\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8\xe2\x80\xa9\x9b"                                          \
    "1m\nggml-hsa: forged"

static inline bool harmful_in(const char * text) {
    static const char * const marks[] = {"\x1b",
                                         "\x07",
                                         "\xc2\x9b",
                                         "\r",
                                         "\b",
                                         "\x7f",
                                         "\xe2\x80\xae",
                                         "\xe2\x81\xa6",
                                         "\xd8\x9c",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         ("\x9b"
                                          "1m"),
                                         "\nggml-hsa: forged"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strstr(text, marks[i])) {
            return true;
        }
    }
    return false;
}
