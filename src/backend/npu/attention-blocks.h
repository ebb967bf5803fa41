// attention-blocks: keys and values of quantized blocks that the kernel of attention does not take
// as they are, made bf16 by the cores in front of it (UNPACK, aie/ops/convert/unpack.c). What lies
// without gaps is taken as one run of numbers, cut into rows as UNPACK likes them: so heads may be
// of any number of blocks, as long as what lies together is whole pairs of them.
#pragma once

#include "dispatch.h"

// What it becomes: the same in bf16, without gaps, its dimensions in the order in which they lie.
// Nothing has a place yet.
struct view attention_unpacked(const struct view * blocks);
enum status attention_blocks_check(struct hsa_device * device, const struct view * blocks,
                                   struct error * err);
// to: what attention_unpacked said, with a place.
enum status attention_blocks_send(struct hsa_stream * s, const struct view * blocks,
                                  const struct view * to, struct error * err);
