// lanes-edge: from memory to lanes and back, one datatype each. bf16 converts in the load and store
// units; f16 has no hardware at all and is taken apart with integer lanes, exactly, denormals
// included. Native lanes are the bytes as they are.
#include "f16.h"
#include "lanes.h"

#include "aie/verbs/verbs.h"

int lanes_step(enum aie_arch arch, enum dtype t, bool native) {
    const struct aie_target * target = aie_target(arch);
    return native ? target->vector_bytes : target->lanes * dtype_size(t);
}

// f16 <-> f32 in 32-bit lanes, with the numbers of f16.h.
enum {
    HALF = 0x3f000000, // f32 0.5: its last bit weighs 2^-24, like f16's denormals
    F32_INF = 0x7f800000,
    MAGNITUDE = 0x7fffffff,
};
#define SIGN 0x80000000u

// The register that holds all lanes of a value, where it has two vectors: an accumulator's half,
// and a whole vector of 16-bit lanes. A value of one vector has the whole accumulator and half of a
// vector.
static struct asm_reg all_of(const struct lanes * l, struct asm_reg bm) {
    return l->vectors > 1 ? asm_half(bm, 0) : bm;
}

static struct asm_reg all_16(const struct lanes * l, struct asm_reg x) {
    return l->vectors > 1 ? x : asm_half(x, 0);
}

struct val lanes_of_f16(struct lanes * l, struct asm_reg raw) {
    struct asm_reg up = lanes_new_acc(l);
    emit_widen_16(l->p, all_of(l, up), all_16(l, raw), l->shift13);
    struct val x = val_bm(up); // sign at the top, magnitude raised, copies of the sign between
    lanes_x(l, &x);
    struct val rebias = k_bits(l, F16_REBIAS), smallest = k_bits(l, F16_SMALLEST);
    lanes_x(l, &rebias);
    lanes_x(l, &smallest);
    struct val sign = b_and(l, x, k_bits(l, SIGN));
    struct val m = b_and(l, x, k_bits(l, F16_RAISED));
    struct val normal = i_add(l, m, rebias);
    struct val special = i_add(l, normal, rebias); // infinity and NaN: exponent 255
    struct val big = v_select(l, m_greater_equal(l, m, k_bits(l, F16_RAISED_INF)), normal, special);
    // A denormal m * 2^-24 is (2^-14 + m * 2^-24) - 2^-14, and both are easy to write down.
    struct val small = f_sub(l, i_add(l, m, smallest), smallest);
    struct mask is_small = m_less(l, m, k_bits(l, F16_RAISED_NORMAL));
    return b_or(l, v_select(l, is_small, big, small), sign);
}

// The low 16 bits of (32-bit lane >> shift), rounded.
static struct asm_reg narrow(struct lanes * l, struct val v, struct asm_reg shift) {
    struct asm_reg bm = lanes_bm(l, &v), d = emit_new_value(l->p);
    emit_narrow_16(l->p, all_16(l, d), all_of(l, bm), shift);
    return d;
}

// The lanes of two vectors as those of one with lanes of 16 bits.
static struct asm_reg joined(struct lanes * l, struct mask m) {
    if (l->vectors == 1) {
        return m.of[0];
    }
    struct asm_reg by = asm_local(l->p, ASM_R), up = asm_local(l->p, ASM_R);
    struct asm_reg both = emit_new_mask(l->p, LANE_16);
    emit_set_small(l->p, by, 16);
    emit_alu(l->p, AIE_BASIC_SHIFT, up, m.of[1], by);
    emit_alu(l->p, AIE_BASIC_OR, both, m.of[0], up);
    return both;
}

static struct asm_reg f32_to_f16(struct lanes * l, struct val x) { // result as all_16 has it
    lanes_x(l, &x);
    struct val sign = b_and(l, x, k_bits(l, SIGN));
    struct val m = b_and(l, x, k_bits(l, MAGNITUDE));
    struct mask is_nan = m_less(l, k_bits(l, F32_INF), m);
    struct mask is_small = m_less(l, m, k_bits(l, F16_SMALLEST));
    struct val most = k_bits(l, F16_RAISED_INF);
    struct val clamped = i_min(l, i_sub(l, m, k_bits(l, F16_REBIAS)), most);
    struct val raised = v_select(l, is_nan, clamped, k_bits(l, F16_RAISED_NAN));
    struct asm_reg normal = narrow(l, raised, l->shift13); // rounds; a carry runs into the exponent
    // |x| + 0.5 rounds at 2^-24, f16's last place for denormals; what was added stands in the bits.
    struct val half = k_bits(l, HALF);
    struct asm_reg small = narrow(l, i_sub(l, f_add(l, m, half), half), l->shift0);
    struct asm_reg sign16 = narrow(l, sign, l->shift16);
    struct asm_reg magnitude = emit_new_value(l->p), d = emit_new_value(l->p);
    emit_select(l->p, LANE_16, magnitude, normal, small, joined(l, is_small));
    emit_lanes(l->p, LANE_OR, LANE_16, d, magnitude, sign16);
    return d;
}

struct val lanes_load(struct lanes * l, struct asm_reg pointer, int memory, bool native) {
    struct asm_reg bm, x;
    if (native) {
        x = asm_local(l->p, ASM_X);
        emit_load_next(l->p, memory, x, pointer);
        return val_x(x);
    }
    switch (l->dtype) {
    case DTYPE_BF16:
        bm = lanes_new_acc(l);
        emit_load_bf16_next(l->p, memory, all_of(l, bm), pointer);
        return val_bm(bm);
    case DTYPE_F16:
        x = emit_new_value(l->p);
        emit_load_next(l->p, memory, all_16(l, x), pointer);
        return lanes_of_f16(l, x);
    default:
        bm = lanes_new_acc(l);
        for (int i = 0; i < l->vectors; i++) {
            emit_load_next(l->p, memory, lanes_part(l, bm, i), pointer);
        }
        return val_bm(bm);
    }
}

struct val lanes_load_at(struct lanes * l, struct asm_reg pointer, int32_t offset, int memory) {
    if (l->dtype == DTYPE_F16) {
        struct asm_reg x = emit_new_value(l->p);
        emit_load(l->p, memory, all_16(l, x), pointer, offset);
        return lanes_of_f16(l, x);
    }
    struct val v = {.slot = -1,
                    .in_bf16 = l->dtype == DTYPE_BF16,
                    .in_memory = l->dtype != DTYPE_BF16,
                    .memory = (uint8_t) memory,
                    .pointer = pointer,
                    .offset = offset};
    lanes_bm(l, &v);
    return v;
}

void lanes_load_acc(struct lanes * l, const struct val * v, struct asm_reg bm) {
    if (v->in_bf16) {
        emit_load_bf16(l->p, v->memory, all_of(l, bm), v->pointer, v->offset);
        return;
    }
    for (int i = 0; i < l->vectors; i++) {
        emit_load(l->p, v->memory, lanes_part(l, bm, i), v->pointer,
                  v->offset + i * asm_target(l->p)->vector_bytes);
    }
}

struct val lanes_wait(struct lanes * l, struct val v) {
    if (l->vectors == 1) {
        return v;
    }
    if (!v.in_memory && !v.in_bf16) {
        lanes_x(l, &v);
    }
    v.has_bm = false;
    return v;
}

// Vector i of a value, wherever it stands.
static struct asm_reg stored(struct lanes * l, struct val * v, int i) {
    if (v->has_bm) {
        return lanes_part(l, v->bm, i);
    }
    lanes_x(l, v);
    return v->x[i];
}

void lanes_store_at(struct lanes * l, struct val v, struct asm_reg pointer, int32_t offset,
                    int memory) {
    if (l->dtype == DTYPE_BF16) {
        emit_store_bf16(l->p, memory, all_of(l, lanes_bm(l, &v)), pointer, offset);
    } else if (l->dtype == DTYPE_F16) {
        emit_store(l->p, memory, all_16(l, f32_to_f16(l, v)), pointer, offset);
    } else {
        for (int i = 0; i < l->vectors; i++) {
            emit_store(l->p, memory, stored(l, &v, i), pointer,
                       offset + i * asm_target(l->p)->vector_bytes);
        }
    }
}

void lanes_store(struct lanes * l, struct val v, struct asm_reg pointer, int memory, bool native) {
    if (!native && l->dtype == DTYPE_BF16) {
        emit_store_bf16_next(l->p, memory, all_of(l, lanes_bm(l, &v)), pointer);
    } else if (!native && l->dtype == DTYPE_F16) {
        emit_store_next(l->p, memory, all_16(l, f32_to_f16(l, v)), pointer);
    } else {
        for (int i = 0; i < (native ? 1 : l->vectors); i++) {
            emit_store_next(l->p, memory, stored(l, &v, i), pointer);
        }
    }
}
