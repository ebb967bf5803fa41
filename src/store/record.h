// record: GGML_HSA_RECORD=FILE makes a run write down every kernel that it needed, as a
// configuration that ggml-hsa-gen-kernels takes. FILE is a whole configuration after each kernel,
// so that a run which is killed loses nothing; several processes may write to one, and no kernel is
// in it twice.
#pragma once

#include "kernel/kernel.h"

struct record;

// *out is NULL when the variable is not set. A failure is worth a warning and nothing else.
enum status record_open(struct record ** out, struct error * err);
void record_close(struct record * r); // may be NULL

// Thread safe; r may be NULL. Cheap for a kernel that was added before. After the first failure,
// which is the only one reported, nothing more is written.
enum status record_add(struct record * r, const struct kernel_spec * spec, struct error * err);
