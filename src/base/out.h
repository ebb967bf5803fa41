// out: files that are written because somebody named them, in a variable or an option. Nothing is
// known of what stands there, and who runs us may be root: only a regular file is written or
// replaced, or one is made where nothing is; devices, pipes, directories and links stay as they
// are, and no link is followed in the last part of a path. (Directories of our own, whose every
// level is checked, are `dir`.)
#pragma once

#include "base.h"

#include <stdio.h>

// Is there a regular file, or nothing? Otherwise ST_IO, with what there is; `path` is for the text.
enum status out_may_write(int dir, const char * name, const char * path, struct error * err);

// Opens the file itself, for one that grows or is written many times; made where there is none,
// 0666 less the umask. `flags` are O_RDWR or O_WRONLY, and O_APPEND.
enum status out_open(const char * path, int flags, int * fd, struct error * err);

// A file that appears under its name whole or not at all; until then it has another name beside it.
struct out {
    FILE * file; // to be written to; NULL: none
    int dir;
    char name[256], temp[48];
};

enum status out_begin(const char * path, struct out * o, struct error * err);
// Brings it to the disk and gives it its name. Whatever comes of it, o is empty afterwards and
// nothing else is left. The text of an error names no file: o knows the last part of its path only.
enum status out_end(struct out * o, struct error * err);
void out_drop(struct out * o);
