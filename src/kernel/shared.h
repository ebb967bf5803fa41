// shared: block floats as they lie in memory, for products whose first operand is kept so
// (MUL_MAT_SHARED with a in i8, aie2p). Eight numbers of a row share an exponent, each has seven
// bits and a sign. Eight rows are a group, in which the blocks of 8 rows by 8 k follow each other
// along k: 64 mantissas, [row][k], then the rows' eight exponents. That is how the cores' fifos
// take them, so that nothing between memory and a multiplication moves a byte within a block.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARED_EIGHT = 8,        // numbers that share an exponent, and rows of a group
    SHARED_BLOCK_BYTES = 72, // of 8 rows by 8 k
    SHARED_SLICE = 64,       // rows are multiples of so many numbers
};

// Bytes of a row of k numbers, of which a group has eight.
static inline int64_t shared_row_bytes(int64_t k) {
    return k / SHARED_EIGHT * SHARED_BLOCK_BYTES / SHARED_EIGHT;
}

// Row `row` (0 to 7) of a group, rounded to nearest even as the cores do it: m * 2^(e - 133) for a
// mantissa m and an exponent e. False: a number is infinite, NaN, or too large for a block.
bool shared_put_row(const float * numbers, int64_t k, int row, uint8_t * group);
// Number i of such a row.
float shared_get(const uint8_t * group, int row, int64_t i);
