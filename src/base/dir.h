// dir: directories and files that no other user can have had a hand in. A directory is opened step
// by step from "/" and each step is checked, files are opened relative to it, and no link is
// followed below it; so what was checked is what is used, however fast others rename things.
// Files appear under their names whole or not at all, also after a loss of power.
#pragma once

#include "base.h"

// Opens base/own. Every level of `base` must belong to root or to us and be writable by nobody else
// (or be sticky, like /tmp), and so must the links that are followed on the way; every level of
// `own` (relative, without "." and "..") must be a directory of ours that only we can write, and no
// link. Missing levels are made, 0700, where `create` is set; otherwise ST_NOT_FOUND. ST_INVALID:
// not to be trusted, with the level, the reason and the mend.
enum status dir_open(const char * base, const char * own, bool create, int * fd,
                     struct error * err);
// One level more, by the rules of `own`.
enum status dir_open_child(int parent, const char * name, bool create, int * fd,
                           struct error * err);

// Reads a whole file of at most max bytes. ST_CORRUPT: it is a link, not regular, not ours,
// writable by others or too large. On success *data is malloc'ed (never NULL), with a zero byte
// behind.
enum status dir_read(int dir, const char * name, size_t max, uint8_t ** data, size_t * size,
                     struct error * err);

// Writes a file (0600) under its name, in place of one that is there. Its bytes are on the disk
// when it returns; the name is once dir_sync was called.
enum status dir_write(int dir, const char * name, const void * data, size_t size,
                      struct error * err);
// Gives a file of from_dir a second name, likewise.
enum status dir_link(int from_dir, const char * from, int dir, const char * name,
                     struct error * err);
// Takes a name away: 0 when it is not there any more, else the errno, and it stays.
int dir_remove(int dir, const char * name);
// Gives the file another name in another directory; where that cannot be done it stays.
void dir_move(int from_dir, const char * from, int dir, const char * name);
enum status dir_sync(int dir, struct error * err);

// What dir_write may leave behind when the process is killed.
#define DIR_TEMP_PREFIX ".tmp-"

// An exclusive lock between processes and threads on the name of a file, which is made for it and
// goes away with it. The system frees the lock of a process that died. ST_BUSY after wait_ms.
enum status dir_lock(int dir, const char * name, unsigned wait_ms, int * lock, struct error * err);
void dir_unlock(int dir, const char * name, int lock);

// Tests define this one to fail, with the errno that it returns, or to die at a step. Everywhere
// else it is not there, and costs nothing.
int dir_fault(const char * step) __attribute__((weak, visibility("hidden")));
