// image: what we write is what the vendor's tools write, byte for byte, and what we read is
// complete: a stream rebuilt from the commands that were read is the stream again.
#include "aie/image/image.h"
#include "aie/image/golden.h"

static bool count_operation(void * user, const struct image_command * c) {
    (void) c;
    ++*(uint32_t *) user;
    return true;
}

static uint32_t operations(const uint32_t * insts, size_t n_words) {
    uint32_t n = 0;
    assert_int_equal(txn_read((const uint8_t *) insts, 4 * n_words, count_operation, &n, NULL),
                     ST_OK);
    return n;
}

static void test_pdi_from_project(void ** state) {
    (void) state;
    static const char * const names[3] = {AIE2P "main_aie_cdo_elfs.bin",
                                          AIE2P "main_aie_cdo_init.bin",
                                          AIE2P "main_aie_cdo_enable.bin"};
    struct cdo cdos[3];
    struct error err = {0};
    for (int i = 0; i < 3; i++) {
        struct bytes file = golden(names[i]);
        if (cdo_read_file_form(file.data, file.size, &cdos[i], &err) != ST_OK) {
            fail_msg("%s", err.text);
        }
        free(file.data);
    }
    uint8_t * pdi;
    size_t size;
    assert_int_equal(pdi_write(cdos, 3, &pdi, &size, &err), ST_OK);
    struct bytes want = golden(AIE2P "main.pdi");
    assert_int_equal(size, want.size);
    assert_memory_equal(pdi, want.data, size);
    free(want.data);
    free(pdi);
    for (int i = 0; i < 3; i++) {
        // A CDO that was put into its final form stays as it is when it is read once more.
        struct cdo again;
        assert_int_equal(cdo_read_file_form(cdos[i].words.data, cdos[i].words.size, &again, &err),
                         ST_OK);
        assert_int_equal(again.words.size, cdos[i].words.size);
        assert_memory_equal(again.words.data, cdos[i].words.data, again.words.size);
        cdo_free(&again);
        cdo_free(&cdos[i]);
    }
}

// Rebuilds a PDI with our own writers: the NOPs of the file are dropped except those at the start
// of its three parts, so the payloads must be aligned by cdo_block_write.
struct rebuild {
    struct cdo cdo;
    size_t n_blocks;
    size_t n_commands;
};

static bool rebuild_cdo(void * user, const struct image_command * c) {
    struct rebuild * r = user;
    uint32_t * words;
    switch (c->op) {
    case IMAGE_WRITE:
        cdo_write(&r->cdo, c->addr, c->value);
        break;
    case IMAGE_MASK_WRITE:
        cdo_mask_write(&r->cdo, c->addr, c->mask, c->value);
        break;
    case IMAGE_BLOCK_WRITE:
        words = malloc((size_t) c->n_words * 4 + 1);
        memcpy(words, c->data, (size_t) c->n_words * 4);
        cdo_block_write(&r->cdo, c->addr, words, c->n_words);
        free(words);
        r->n_blocks++;
        break;
    case IMAGE_NOP:
        return true;
    default:
        fail_msg("command %d in a PDI", c->op);
    }
    r->n_commands++;
    return true;
}

static bool count_writes(void * user, const struct image_command * c) {
    struct rebuild * r = user;
    if (c->op != IMAGE_NOP) {
        r->n_commands++;
    }
    if (c->op == IMAGE_BLOCK_WRITE) {
        // Offset of the payload within the file's CDO, which begins at 0x150, against its
        // destination.
        r->n_blocks +=
            ((c->offset - 0x150) / 4 + (c->n_words + 2 < 255 ? 3 : 4)) % 4 == c->addr / 4 % 4;
    }
    return true;
}

static void test_pdi_rebuilt(void ** state) {
    (void) state;
    for (int i = 0; i < GOLDEN_KERNELS; i++) {
        struct bytes file = golden(golden_pdis[i]);
        struct rebuild r = {0}, seen = {0};
        struct error err = {0};
        cdo_begin(&r.cdo);
        if (pdi_read(file.data, file.size, rebuild_cdo, &r, &err) != ST_OK) {
            fail_msg("%s: %s", golden_pdis[i], err.text);
        }
        assert_true(r.n_commands > 50 && r.n_blocks >= 5);
        uint8_t * pdi;
        size_t size;
        assert_int_equal(pdi_write(&r.cdo, 1, &pdi, &size, &err), ST_OK);
        assert_memory_equal(pdi, file.data, 0xd0); // headers before the partition's are constant
        assert_int_equal(size % 16, 0);
        assert_int_equal(pdi_read(pdi, size, count_writes, &seen, &err), ST_OK);
        assert_int_equal(seen.n_commands, r.n_commands);
        assert_int_equal(seen.n_blocks, r.n_blocks); // every one is aligned
        cdo_free(&r.cdo);
        free(pdi);
        free(file.data);
    }
}

static bool rebuild_txn(void * user, const struct image_command * c) {
    struct txn * t = user;
    uint32_t words[64];
    switch (c->op) {
    case IMAGE_WRITE:
        txn_write(t, c->addr, c->value);
        return true;
    case IMAGE_MASK_WRITE:
        txn_mask_write(t, c->addr, c->mask, c->value);
        return true;
    case IMAGE_BLOCK_WRITE:
        assert_true(c->n_words <= 64);
        memcpy(words, c->data, (size_t) c->n_words * 4);
        txn_block_write(t, c->addr, words, c->n_words);
        return true;
    case IMAGE_PATCH:
        txn_patch_address(t, c->addr, c->operand, c->byte_offset);
        return true;
    case IMAGE_WAIT:
        txn_wait(t, c->col, c->row, c->direction, c->channel);
        return true;
    default:
        fail_msg("command %d in a TXN", c->op);
        return false;
    }
}

static void test_txn_rebuilt(void ** state) {
    (void) state;
    for (int i = 0; i < GOLDEN_KERNELS; i++) {
        struct bytes file = golden(golden_streams[i]);
        struct txn t;
        struct error err = {0};
        txn_begin(&t, file.data[4], file.data[2]);
        if (txn_read(file.data, file.size, rebuild_txn, &t, &err) != ST_OK) {
            fail_msg("%s: %s", golden_streams[i], err.text);
        }
        uint32_t * insts;
        size_t n;
        assert_int_equal(txn_end(&t, &insts, &n, &err), ST_OK);
        assert_int_equal(n * 4, file.size);
        assert_memory_equal(insts, file.data, file.size);
        free(insts);
        free(file.data);
    }
}

// ---- without golden data ----

static uint32_t word_at(const uint8_t * data, size_t index) {
    return load_u32(data + 4 * index);
}

static void test_cdo_words(void ** state) {
    (void) state;
    struct cdo c;
    cdo_begin(&c);
    cdo_write(&c, 0x21f000, 2);
    cdo_mask_write(&c, 0x232000, 1, 0);
    static const uint32_t want[] = {4,        0x4f4443, 0x200,    8, ~(4u + 0x4f4443 + 0x200 + 8),
                                    0x111,    0x20103,  0x21f000, 2, 0x30102,
                                    0x232000, 1,        0};
    assert_int_equal(c.words.size, sizeof want);
    for (size_t i = 0; i < sizeof want / 4; i++) {
        assert_int_equal(word_at(c.words.data, i), want[i]);
    }
    // Payload and destination agree modulo 16 bytes for every phase and for both command lengths.
    static const uint32_t data[300] = {7};
    for (uint32_t phase = 0; phase < 4; phase++) {
        for (int is_long = 0; is_long < 2; is_long++) {
            for (int extra = 0; extra < 4; extra++) {
                for (int i = 0; i < extra; i++) {
                    cdo_write(&c, 0, 0);
                }
                size_t n = is_long ? 253 : 252;
                cdo_block_write(&c, 0x220000 + 4 * phase, data, n);
                size_t payload = c.words.size / 4 - n;
                assert_int_equal(payload % 4, phase);
                assert_int_equal(word_at(c.words.data, payload), 7);
                assert_int_equal(word_at(c.words.data, payload - 1), 0x220000 + 4 * phase);
                assert_int_equal(word_at(c.words.data, payload - (is_long ? 4 : 3)),
                                 is_long ? 0xff0105 : 0xfe0105);
            }
        }
    }
    struct cdo again;
    struct error err;
    assert_int_equal(cdo_read_file_form(c.words.data, c.words.size, &again, &err), ST_OK);
    assert_int_equal(again.words.size, c.words.size);
    assert_memory_equal(again.words.data, c.words.data, c.words.size);
    cdo_free(&again);
    cdo_free(&c);
}

static bool stop_at_third(void * user, const struct image_command * c) {
    (void) c;
    return ++*(int *) user < 3;
}

static void test_visit_stops(void ** state) {
    (void) state;
    struct cdo c;
    struct txn t;
    struct error err;
    cdo_begin(&c);
    txn_begin(&t, 4, 3);
    for (int i = 0; i < 9; i++) {
        cdo_write(&c, 0, 0);
        txn_write(&t, 0, 0);
    }
    uint8_t * pdi;
    uint32_t * insts;
    size_t size, n;
    assert_int_equal(pdi_write(&c, 1, &pdi, &size, &err), ST_OK);
    assert_int_equal(txn_end(&t, &insts, &n, &err), ST_OK);
    int count = 0;
    assert_int_equal(pdi_read(pdi, size, stop_at_third, &count, &err), ST_OK);
    assert_int_equal(count, 3);
    count = 0;
    assert_int_equal(txn_read((uint8_t *) insts, n * 4, stop_at_third, &count, &err), ST_OK);
    assert_int_equal(count, 3);
    free(pdi);
    free(insts);
    cdo_free(&c);
}

// ---- joined streams ----

// A transfer to the shim that is waited for, or is not.
static struct txn_part transfer(uint32_t addr, int operand, uint32_t offset, bool token,
                                bool waited) {
    const uint32_t queue = 0x1d204, control = 0x1d200, descriptor[8] = {16};
    struct txn_part p = {0};
    struct txn t;
    struct error err;
    uint32_t * insts;
    txn_begin(&t, 4, 3);
    txn_mask_write(&t, control, 0x1f00, 0x0f00);
    txn_block_write(&t, addr, descriptor, 8);
    txn_patch_address(&t, addr + 4, operand, offset);
    txn_write(&t, queue, token ? 0x80000000u : 0);
    if (waited) {
        txn_wait(&t, 0, 0, 0, 0);
    }
    assert_int_equal(txn_end(&t, &insts, &p.n_words, &err), ST_OK);
    p.insts = insts;
    return p;
}

struct seen {
    int n_patches, operands[4], waits;
    uint32_t offsets[4], addrs[4];
};

static bool see(void * user, const struct image_command * c) {
    struct seen * s = user;
    if (c->op == IMAGE_PATCH) {
        s->operands[s->n_patches] = c->operand;
        s->addrs[s->n_patches] = c->addr;
        s->offsets[s->n_patches++] = c->byte_offset;
    }
    s->waits += c->op == IMAGE_WAIT;
    return true;
}

static void test_joined(void ** state) {
    (void) state;
    struct txn_part parts[] = {transfer(0x1d000, 2, 64, true, true),
                               transfer(0x1d020, 1, 8, true, true)};
    uint32_t out[200];
    size_t n, n_aims;
    struct txn_aim * aims;
    struct error err;
    assert_int_equal(txn_join(parts, 2, false, out, &n, &aims, &n_aims, &err), ST_OK);
    assert_int_equal(n, parts[0].n_words + parts[1].n_words - 4 - 7); // told once who hears of it
    assert_int_equal(n_aims, 2);
    assert_int_equal(operations(out, n), operations(parts[0].insts, parts[0].n_words) +
                                             operations(parts[1].insts, parts[1].n_words) - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(aims[i].part, i);
        assert_int_equal(aims[i].operand, i ? 1 : 2);
        uint32_t size, *at = txn_aim(out, &aims[i], 5 + i, 1000 + aims[i].byte_offset, &size);
        assert_true(size > 0 && at > out && at + size / 4 <= out + n);
        txn_aim(out, &aims[i], 5 + i, 1000 + aims[i].byte_offset, &size);
        assert_int_equal(size, 0); // it stands there
    }
    struct seen seen = {0};
    assert_int_equal(txn_read((const uint8_t *) out, 4 * n, see, &seen, &err), ST_OK);
    assert_int_equal(seen.n_patches, 2);
    assert_int_equal(seen.waits, 2);
    assert_int_equal(seen.operands[0], 5);
    assert_int_equal(seen.operands[1], 6);
    assert_int_equal(seen.offsets[0], 1064);
    assert_int_equal(seen.offsets[1], 1008);
    assert_int_equal(seen.addrs[1], 0x1d024);
    free(aims);
    for (int i = 0; i < 2; i++) {
        free((void *) (uintptr_t) parts[i].insts);
    }
}

// A part with two descriptors of a tile, the first of which leads to the second, run so many times;
// and what else happens to them. Fields are those of the public register documentation.
enum told_as {
    PLAIN,
    CIRCLE,  // the second leads to the first
    OTHER,   // of another length
    TOUCHED, // a word of the second is written afterwards
    OUTSIDE, // a descriptor that nobody wrote is run
};
struct told {
    int row, runs;
    uint32_t iterations;
    enum told_as as;
};

static struct txn_part telling(const struct told * x) {
    bool mem = x->row == 1;
    uint32_t tile = 1u << 25 | (uint32_t) x->row << 20;
    uint32_t bds = tile + (mem ? 0xa0000 : 0x1d000), queue = tile + (mem ? 0xa0634 : 0x1de14);
    uint32_t words[16] = {x->as == OTHER ? 8 : 16, 0}, n = mem ? 8 : 6;
    words[n] = 32;
    words[mem ? 1 : 5] = mem ? 1u << 20 | 1u << 19 : 1u << 27 | 1u << 26;
    words[n + (mem ? 1 : 5)] = x->as == CIRCLE ? mem ? 1u << 19 : 1u << 26 : 0;
    words[n + (mem ? 6 : 4)] = (x->iterations - 1) << (mem ? 17 : 13);
    struct txn_part p = {0};
    struct txn t;
    uint32_t * insts;
    txn_begin(&t, 4, 3);
    if (mem) {
        txn_block_write(&t, bds, words, 16);
    } else {
        txn_block_write(&t, bds, words, 6);
        txn_block_write(&t, bds + 0x20, words + 6, 6);
    }
    txn_write(&t, queue, (uint32_t) (x->runs - 1) << 16);
    if (x->as == TOUCHED) {
        txn_write(&t, bds + 0x20, 32);
    }
    if (x->as == OUTSIDE) {
        txn_write(&t, queue, 5);
    }
    assert_int_equal(txn_end(&t, &insts, &p.n_words, NULL), ST_OK);
    p.insts = insts;
    return p;
}

// What a first part left in descriptors is not written again, unless it may have changed.
static void test_standing(void ** state) {
    (void) state;
    static const struct {
        struct told first, second;
        uint32_t left_out;
    } cases[] = {
        {{1, 4, 2, PLAIN}, {1, 4, 2, PLAIN}, 1},
        {{1, 3, 2, PLAIN}, {1, 3, 2, PLAIN}, 0}, // stands at its other place
        {{1, 3, 1, PLAIN}, {1, 3, 1, PLAIN}, 1},
        {{1, 6, 3, PLAIN}, {1, 1, 3, PLAIN}, 1},
        {{1, 4, 2, PLAIN}, {1, 4, 2, OTHER}, 0},
        {{1, 4, 2, TOUCHED}, {1, 4, 2, PLAIN}, 0},
        {{1, 4, 2, OUTSIDE}, {1, 4, 2, PLAIN}, 0},
        {{1, 4, 2, CIRCLE}, {1, 4, 2, CIRCLE}, 0},
        {{3, 4, 2, PLAIN}, {3, 4, 2, PLAIN}, 2},
        {{3, 3, 2, PLAIN}, {3, 4, 2, PLAIN}, 1}, // the first has no iteration
        {{3, 4, 2, TOUCHED}, {3, 4, 2, PLAIN}, 1},
        {{3, 4, 2, OUTSIDE}, {3, 4, 2, PLAIN}, 0},
        {{3, 4, 2, PLAIN}, {2, 4, 2, PLAIN}, 0}, // of another tile
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct txn_part parts[] = {telling(&cases[i].first), telling(&cases[i].second)};
        uint32_t out[200], all = 0;
        size_t n, n_aims;
        struct txn_aim * aims;
        print_message("case %d\n", (int) i);
        assert_int_equal(txn_join(parts, 2, false, out, &n, &aims, &n_aims, NULL), ST_OK);
        for (int p = 0; p < 2; p++) {
            all += operations(parts[p].insts, parts[p].n_words);
            free((void *) (uintptr_t) parts[p].insts);
        }
        assert_int_equal(operations(out, n), all - cases[i].left_out);
        free(aims);
    }
}

// A token that nobody waits for would end the next part's wait, which may be for another transfer.
static void test_not_joined(void ** state) {
    (void) state;
    struct txn_part parts[] = {
        transfer(0x1d000, 0, 0, true, true), transfer(0x1d000, 0, 0, true, false),
        transfer(0x1d000, 0, 0, false, true), transfer(0x1d000, 0, 0, true, true)};
    uint32_t out[400], *other = (uint32_t *) (uintptr_t) parts[3].insts;
    size_t n, n_aims;
    struct txn_aim * aims;
    struct error err;
    other[0] ^= 1u << 16; // of another generation
    for (int i = 1; i < 4; i++) {
        assert_int_equal(txn_join((struct txn_part[]){parts[0], parts[i]}, 2, false, out, &n, &aims,
                                  &n_aims, &err),
                         ST_UNSUPPORTED);
    }
    for (int i = 0; i < 4; i++) {
        free((void *) (uintptr_t) parts[i].insts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joined),           cmocka_unit_test(test_not_joined),
        cmocka_unit_test(test_pdi_from_project), cmocka_unit_test(test_pdi_rebuilt),
        cmocka_unit_test(test_txn_rebuilt),      cmocka_unit_test(test_cdo_words),
        cmocka_unit_test(test_visit_stops),      cmocka_unit_test(test_standing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
