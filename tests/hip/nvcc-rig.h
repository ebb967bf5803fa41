// nvcc-rig: what the parts of nvcc-bench share: modules, launches and their time, random matrices
// of ggml's types with what they mean, and the lines that are printed.
//
// Kept true: nothing is read from the L2 cache that memory is to give: calls that are timed take
// turns in several tensors, which together are four times that cache.
#pragma once

#include "../../tools/hip-check/check-impl.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

extern CUstream bench_stream;
extern double bench_bandwidth; // bytes a second, the best that was seen
extern int bench_wrong;        // lines

void bench_open(int n_files, char ** files);
void bench_describe(void);
void bench_must(CUresult result, const char * what);
// Is it in the modules? If not, a line says so, once for all that the caller then leaves out.
bool bench_has(const char * kernel);
void bench_launch(const char * kernel, const void * args, size_t size, unsigned x, unsigned y,
                  unsigned z, unsigned group);

CUdeviceptr bench_room(size_t size);
CUdeviceptr bench_put(const void * from, size_t size);
CUdeviceptr bench_fill(size_t floats); // of NaN

// Seconds of one of `turns` calls, the median of several times that a graph of all of them ran.
double bench_time(void (*call)(void * user, int turn), void * user, int turns);
// The same with BENCH_BESIDE of them under way at a time: what a call takes where the start of one
// is hidden behind the end of another. Only for calls that write nothing that another one reads.
enum { BENCH_BESIDE = 4 };
double bench_time_beside(void (*call)(void * user, int turn), void * user, int turns);
// How many tensors of that size take turns.
int bench_sets(size_t size);
// Seconds that a kernel takes which only reads so many bytes of memory.
double bench_read_time(size_t size);
double bench_read_time_beside(size_t size);

uint64_t bench_draw(void);
float bench_draw_float(void); // in [-1, 1)

// Of floats or of blocks.
struct bench_type {
    const char * name;
    const struct check_format * blocks; // NULL: `floats`
    enum check_type floats;
};
struct bench_type bench_type_of(const char * name);
size_t bench_bytes(const struct bench_type * t, size_t numbers);
void * bench_random(const struct bench_type * t, size_t numbers); // to be freed
// n numbers from `first` on, a multiple of a block's length.
void bench_decode(const struct bench_type * t, const void * p, size_t first, size_t n,
                  double * out);

enum bench_unit { BENCH_FLOPS, BENCH_BYTES };
// One line: the time, the rate, its share of `best` a second, and the greatest error.
void bench_line(const char * what, double seconds, double amount, enum bench_unit unit, double best,
                const char * of, double wrong, double allowed);

void bench_products(void);  // nvcc-products.c
void bench_columns(void);   // nvcc-columns.c
void bench_attention(void); // nvcc-attention.c
