// json: reads JSON text (RFC 8259) into a tree. The text is from outside: depth, size and number of
// values are bounded, strings must be UTF-8 without zero bytes, and every error says line and
// column. Written by hand because the plugin reads the manifests of kernel packs, and must load on
// machines that have no JSON library.
#pragma once

#include "base.h"

#define JSON_MAX_DEPTH  64
#define JSON_MAX_VALUES 4000000 // some 256 MiB of tree

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INTEGER, // written without point and exponent, and within 64 bits
    JSON_REAL,    // every other number; infinite where it is beyond what a double holds
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json {
    enum json_type type;
    int line, column;         // where it begins, from 1; columns count bytes
    const char * key;         // in an object; else NULL
    const struct json * next; // in its array or object
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char * string;
        const struct json * first; // child of an array or object, in the order of the text
    };
};

struct json_doc {
    const struct json * root;
    struct json_block * blocks; // all memory of the tree
};

// On failure ST_INVALID with "line L, column C: reason", or ST_NO_MEMORY.
enum status json_parse(const char * text, size_t size, struct json_doc * out, struct error * err);
void json_free(struct json_doc * doc);

const char * json_type_name(enum json_type type); // "a string"

// The first member of that name, NULL without one. *n (may be NULL) is how often the name occurs.
const struct json * json_member(const struct json * object, const char * key, int * n);

void json_quote(struct buf * b, const char * string);
