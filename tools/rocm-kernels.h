// rocm-kernels.h: what the files of the tool `rocm-kernels` share.
#pragma once

#include "base/json.h"
#include "hip/hip-impl.h"
#include "hsa/hsac.h"
#include "tool.h"

#define PROGRAM "rocm-kernels"

// PROGRAM ": ..." to standard error; EXIT_USAGE or EXIT_BAD_INPUT.
int say_usage(const char * fmt, ...) BASE_PRINTF(1, 2);
int say_failed(const char * text);
void say_warning(void * user, const char * text); // for rocm_options.warn

// With --json what is found goes here, and is printed at the end; NULL: in words, as it comes. It
// stays NULL where memory ran out, or there is no jansson.
extern bool in_json;
extern json_t * answer;

// Opens the manager, with the HSA runtime where there is one; NULL after an error was told.
struct rocm_kernels * open_manager(const char * arch, const char * compiler);

// That runtime; NULL: there is none, or it has no device.
struct hsac * open_runtime(struct error * err);

double seconds_now(void);

int run_compile(int argc, char ** argv); // rocm-kernels-compile.c
int run_run(int argc, char ** argv);     // rocm-kernels-run.c
int run_cache(int argc, char ** argv);   // rocm-kernels-cache.c
