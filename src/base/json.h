// json: jansson, with errors and limits of ours. Texts that are read are from outside: size, depth
// and number of values are bounded before jansson sees them, names are unique within an object, and
// strings are UTF-8 without zero bytes, so that json_string_value() is all of a string. The library
// is opened when it is first needed (json-late.c), and may be missing.
#pragma once

#include "base.h"

#include <jansson.h>

#define JSON_MAX_BYTES  ((size_t) 64 << 20)
#define JSON_MAX_DEPTH  64
#define JSON_MAX_VALUES 2000000 // at most some 400 MiB of tree

// ST_OK where there is jansson; else why, and the mend. Without it json_read says the same, and
// what is written fails as for want of memory.
enum status json_library(struct error * err);
const char * json_trouble(void); // why a text was not written, after json_print set b->failed

// The caller owns *out (json_decref). On failure it is NULL, and the status ST_INVALID with "line
// L, column C: reason", ST_NO_MEMORY, or json_library's.
enum status json_read(const char * text, size_t size, json_t ** out, struct error * err);
// Whether json_read would take a text of that size, depth and number of values; what is written and
// cannot be read again is lost.
enum status json_check_bounds(const char * text, size_t size, struct error * err);
// The same for a file; errors begin with the path, ST_INVALID ones with "path: JSON syntax".
enum status json_read_file(const char * path, json_t ** out, struct error * err);

const char * json_kind(const json_t * value); // "a string"

// Both take over `value`. Where memory runs out, or value is NULL because it did, *into becomes
// NULL and later calls do nothing; json_print then sets b->failed, so that the caller checks once.
void json_put(json_t ** object, const char * key, json_t * value);
void json_append(json_t ** array, json_t * value);
json_t * json_size(uint64_t n); // JSON_INTEGER; as large as jansson holds

// flags are jansson's, e.g. JSON_INDENT(2).
void json_print(const json_t * value, size_t flags, struct buf * b);
// Prints it and a newline to standard output, and takes it over; or why not to standard error,
// behind the tool's name. A full disk is the caller's to find when it ends.
bool json_tell(json_t * value, size_t flags, const char * tool);
