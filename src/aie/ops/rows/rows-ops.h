// rows-ops: the words that the passes of the row programs are written in.
#pragma once

#include "rows.h"

enum { MEM_SCRATCH = MEM_POOL + 1 };

// The entry of a pass: from here on, chunks go to `body`. What it sets to nothing follows.
void rows_entry(struct rows_writer * w, int entry, int body);
// Puts the neutral number behind the end of the row in the chunk at hand.
void rows_fill(struct rows_writer * w, struct asm_reg row, int memory, struct val neutral);
void rows_move(struct rows_writer * w, struct asm_reg to, struct val v);
// Float sums: acc[0] and acc[1] in a loop, added to the row's sum in acc[2] behind it; so a long
// sum is a sum of sums. rows_keep_sums also ends the body: what follows runs behind the pass's last
// chunk.
struct val rows_acc(struct rows_writer * w, int i);
void rows_clear(struct rows_writer * w, const int * which, int n); // of acc
void rows_clear_sums(struct rows_writer * w);
void rows_clear_row_sum(struct rows_writer * w);
void rows_sum(struct rows_writer * w, int i, struct val v);
void rows_keep_sums(struct rows_writer * w);
struct val rows_summed(struct rows_writer * w); // in all lanes
// The end of a row; behind the last one comes `end`, one of the driver's labels.
void rows_end(struct rows_writer * w, int end);
// A factor that is the same for a whole row, kept as pieces in three slots.
void rows_put_factor(struct rows_writer * w, int slot, struct val v);
struct factor rows_get_factor(struct rows_writer * w, int slot);
struct asm_reg rows_pieces(struct rows_writer * w, int low, int high);
// A pass that sums each row, up to and with rows_keep_sums.
void rows_sum_pass(struct rows_writer * w, int entry);

// x^(-1/2) and 1/x of the positive number in a slot.
struct val rows_inverse_root(struct rows_writer * w, int slot);
struct val rows_inverse(struct rows_writer * w, int slot);
// log x of the number in a slot, from 1 to 2^31.
struct val rows_log(struct rows_writer * w, int slot);
// e^-m where m is not below 0, within a few units of the last place; of one or two vectors.
void rows_exp_minus(struct lanes * l, int n_vals, const struct val m[], struct val e[]);

// A number as an integer that is in the same order as others; what stands for a NaN is less than
// all of them.
enum { ROWS_NO_KEY = INT32_MIN, ROWS_NAN_BITS = INT32_MAX };
struct val rows_order_key(struct lanes * l, struct val x);

// A trip of a norm's loops: squares are summed, and what is scaled by the factor that is kept in
// RW_SLOT_FACTOR, and by weights, is stored.
void rows_norm_squares(struct rows_writer * w);
void rows_norm_scale(struct rows_writer * w, bool weighted);
void rows_norm(struct rows_writer * w, int norm_entry, int rms_entry);
void rows_prepare_halves(struct rows_writer * w);
void rows_soft_max(struct rows_writer * w, int entry);
void rows_loss(struct rows_writer * w, int entry);
void rows_argsort(struct rows_writer * w, int entry);
void rows_pairs(struct rows_writer * w, const int op_label[RW_MAX_INDEX]);
