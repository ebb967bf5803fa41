// plain: texts of others on a terminal, in a log and in a document: names of tensors and kernels,
// values of variables, paths. What steers whoever shows them is shown as question marks: control
// characters of seven and eight bits, what turns the reading direction round, separators of lines,
// and what is no UTF-8 or no character. A line end counts too, for a line can look like anybody's.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Bytes of the character at the beginning of a text, 1 where it is none. False: it is not to be
// shown. The text is not empty.
bool plain_character(const char * text, size_t * bytes);
// Bytes of the UTF-8 character there, whatever it does; 0 when it is none.
size_t plain_utf8(const char * text);

// In place: every byte of what is not to be shown becomes '?'. With `lines` line ends and tabs
// stay, for texts that are written in lines.
void plain_make(char * text, bool lines);
