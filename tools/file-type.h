// file-type: which datatype each weight has in a file that llama-quantize writes. Hardly a file has
// one datatype throughout: a head that is shared with the embedding, the weights that a mixture
// favours and rows that are no whole blocks have others.
#pragma once

#include "decoder.h"

struct file_type {
    const char * name;   // as llama-quantize is told
    enum ggml_type base; // of most weights
    enum ggml_type head; // of the output, and of an embedding that serves as the output too
    enum ggml_type more; // of values and of what leads down, in layers that deserve it
    bool pure;           // llama-quantize --pure: one datatype throughout, but for odd rows
    bool mxfp4;          // of experts, whatever else has
};

enum { FILE_TYPES_USUAL = 4, FILE_TYPES = 8 }; // the usual ones come first
extern const struct file_type file_types[FILE_TYPES];

// The type of a weight in that layer; for the model's own weights the layer does not matter.
enum ggml_type file_type_weight(const struct file_type * f, const struct decoder * d,
                                enum decoder_weight w, int64_t layer);
// Sets the datatypes of all weights of a model of these sizes. Where there is a window, every other
// layer has it, from the first on.
void file_type_model(const struct file_type * f, const struct decoder * sizes,
                     struct decoder_model * out);
