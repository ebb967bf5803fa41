// Packets by hand, byte for byte: what is malformed or points astray stops the queue with the right
// code, before anything runs. The layouts are written here a second time on purpose, from the
// offsets alone, so that client and runtime cannot agree on the same mistake.
#include "rig.h"

#include <sys/mman.h>

struct bench {
    struct rig r;
    hsa_queue_t * queue;
    hsa_signal_t done;
    uint8_t *pdi, *insts, *payload, *operand; // one page each
    uint8_t * nowhere;                        // a page that nobody may touch
    hsa_status_t error;
    int n_errors;
    uint8_t packet[64];
};

static void on_error(hsa_status_t status, hsa_queue_t * queue, void * data) {
    struct bench * b = data;
    assert_ptr_equal(queue, b->queue);
    b->error = status;
    b->n_errors++;
}

static void put(uint8_t * p, size_t offset, uint64_t value, size_t bytes) {
    memcpy(p + offset, &value, bytes);
}

static void bench_close(struct bench * b) {
    munmap(b->nowhere, 4096);
    rig_close(&b->r);
}

static void queue_new(struct bench * b) {
    assert_int_equal(
        b->r.hsa_queue_create(b->r.npu, 64, HSA_QUEUE_TYPE_SINGLE, on_error, b, 0, 0, &b->queue),
        0);
    b->error = HSA_STATUS_SUCCESS;
    b->n_errors = 0;
}

static void bench_open(struct bench * b) {
    memset(b, 0, sizeof *b);
    rig_open(&b->r);
    b->pdi = rig_alloc(&b->r, b->r.heap, 4096);
    b->insts = rig_alloc(&b->r, b->r.heap, 4096);
    b->payload = rig_alloc(&b->r, b->r.kernarg, 4096);
    b->operand = rig_alloc(&b->r, b->r.data, 4096);
    b->nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(b->nowhere, MAP_FAILED);
    assert_int_equal(b->r.hsa_signal_create(1, 0, NULL, &b->done), 0);
    queue_new(b);
}

// Two operands; well-formed, though the PDI behind it is an empty page.
static void make_b(struct bench * b) {
    uint8_t *p = b->packet, *y = b->payload;
    memset(p, 0, 64);
    memset(y, 0, 256);
    put(p, 2, 3, 1);
    put(p, 4, 1 | 9u << 12, 4); // state new, count 3 + 3 * 2
    put(p, 56, (uintptr_t) y, 8);
    put(y, 0, (uintptr_t) b->pdi, 8);
    put(y, 8, 3, 8);
    put(y, 16, (uintptr_t) b->insts, 8);
    put(y, 24, 16, 4);
    put(y, 28, (uintptr_t) b->operand, 8);
    put(y, 36, (uintptr_t) b->operand + 2048, 8);
    put(y, 44, 2048, 4);
    put(y, 48, 2048, 4);
}

static void make_d(struct bench * b) {
    uint8_t *p = b->packet, *y = b->payload;
    memset(p, 0, 64);
    memset(y, 0, 256);
    put(p, 4, 24, 2);
    put(p, 20, (uintptr_t) b->insts, 8);
    put(p, 28, 2, 2);
    put(p, 32, (uintptr_t) y, 8);
    put(p, 40, 64, 8);
    put(p, 48, (uintptr_t) b->pdi, 8);
    put(y, 0, (uintptr_t) b->operand, 8);
    put(y, 8, (uintptr_t) b->operand + 2048, 8);
    put(y, 16, 2048, 8);
    put(y, 24, 2048, 8);
}

static void send(struct bench * b) {
    uint64_t index = b->r.hsa_queue_add_write_index_relaxed(b->queue, 1);
    memcpy((uint8_t *) b->queue->base_address + index % 64 * 64, b->packet, 64);
    b->r.hsa_signal_store_screlease(b->queue->doorbell_signal, (hsa_signal_value_t) index);
}

enum where { PACKET, PAYLOAD };

struct fault {
    const char * text; // must appear in the error
    char abi;
    enum where where;
    size_t offset;
    uint64_t value; // relative to an address of the bench where base says so
    size_t bytes;
    char base; // 0, or p(di) i(nsts) o(perand) n(owhere) s(ystem pool) q(ueue's doorbell) y
               // (payload)
    hsa_status_t expected;
};

#define FORMAT  HSA_STATUS_ERROR_INVALID_PACKET_FORMAT
#define ADDRESS HSA_STATUS_ERROR_INVALID_ALLOCATION

static const struct fault faults[] = {
    {"header", 'B', PACKET, 0, 1, 2, 0, FORMAT},
    {"header", 'D', PACKET, 0, 2, 2, 0, FORMAT},
    {"format 7", 'B', PACKET, 2, 7, 1, 0, FORMAT},
    {"state", 'B', PACKET, 4, 9u << 12, 4, 0, FORMAT},
    {"opcode 5", 'B', PACKET, 4, 1 | 9u << 12 | 5u << 23, 4, 0, FORMAT},
    {"counts 0", 'B', PACKET, 4, 1, 4, 0, FORMAT},
    {"counts 2046", 'B', PACKET, 4, 1 | 2046u << 12, 4, 0, FORMAT},
    {"payload", 'B', PACKET, 56, 0, 8, 0, ADDRESS},
    {"payload", 'B', PACKET, 56, 0, 8, 'n', ADDRESS},
    {"payload", 'B', PACKET, 56, 4092, 8, 'y', ADDRESS}, // ends behind its allocation
    {"payload", 'B', PACKET, 56, UINT64_MAX - 3, 8, 0, ADDRESS},
    {"transaction", 'B', PAYLOAD, 8, 4, 4, 0, FORMAT},
    {"transaction", 'B', PAYLOAD, 12, 1, 4, 0, FORMAT},
    {"PDI", 'B', PAYLOAD, 0, 0, 8, 0, ADDRESS},
    {"PDI", 'B', PAYLOAD, 0, 0, 8, 'o', ADDRESS}, // not in the heap
    {"PDI", 'D', PACKET, 48, 0, 8, 'n', ADDRESS},
    {"instruction stream", 'B', PAYLOAD, 16, 0, 8, 'o', ADDRESS},
    {"instruction stream", 'B', PAYLOAD, 16, 2, 8, 'i', FORMAT},
    {"instruction stream", 'B', PAYLOAD, 24, 0, 4, 0, FORMAT},
    {"ends after 4096", 'B', PAYLOAD, 24, 1025, 4, 0, ADDRESS},
    {"ends after", 'B', PAYLOAD, 24, UINT32_MAX, 4, 0, ADDRESS},
    {"operand 0", 'B', PAYLOAD, 28, 0, 8, 0, ADDRESS},
    {"operand 1", 'B', PAYLOAD, 36, 0, 8, 'n', ADDRESS},
    {"operand 1", 'B', PAYLOAD, 36, 0, 8, 's', ADDRESS}, // of the CPU: the NPU does not reach it
    {"operand 0", 'B', PAYLOAD, 44, 4097, 4, 0, ADDRESS},
    {"completion signal", 'C', PACKET, 48, 64, 8, 0, HSA_STATUS_ERROR_INVALID_SIGNAL},
    {"completion signal", 'D', PACKET, 8, 0, 8, 'q', HSA_STATUS_ERROR_INVALID_SIGNAL},
    {"opcode", 'D', PACKET, 2, 0x100, 2, 0, FORMAT},
    {"count 23", 'D', PACKET, 4, 23, 2, 0, FORMAT},
    {"count", 'D', PACKET, 6, 1, 1, 0, FORMAT},
    {"65 operands", 'D', PACKET, 28, 65, 2, 0, FORMAT},
    {"kernel arguments", 'D', PACKET, 32, 0, 8, 0, ADDRESS},
    {"kernel arguments", 'D', PACKET, 32, 4, 8, 'y', ADDRESS},
    {"kernel arguments", 'D', PACKET, 32, 0, 8, 'n', ADDRESS},
    {"kernel arguments", 'D', PACKET, 32, 4080, 8, 'y', ADDRESS},
    {"words", 'D', PACKET, 40, 63, 8, 0, FORMAT},
    {"ends after", 'D', PACKET, 40, UINT64_MAX - 3, 8, 0, ADDRESS},
    {"patch offset", 'D', PACKET, 56, 16, 8, 0, FORMAT},
    {"operand 1", 'D', PAYLOAD, 24, UINT64_MAX, 8, 0, ADDRESS},
};

static void test_faults(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, NULL);
    bench_open(&b);
    uint8_t * host = rig_alloc(&b.r, b.r.system, 4096);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const struct fault * f = &faults[i];
        f->abi == 'D' ? make_d(&b) : make_b(&b);
        uint64_t base = 0;
        switch (f->base) {
        case 'i':
            base = (uintptr_t) b.insts;
            break;
        case 'o':
            base = (uintptr_t) b.operand;
            break;
        case 'n':
            base = (uintptr_t) b.nowhere;
            break;
        case 's':
            base = (uintptr_t) host;
            break;
        case 'y':
            base = (uintptr_t) b.payload;
            break;
        case 'q':
            base = b.queue->doorbell_signal.handle;
            break;
        default:
            break;
        }
        put(f->where == PACKET ? b.packet : b.payload, f->offset, base + f->value, f->bytes);
        send(&b);
        const char * text = b.r.hsa_emu_last_error(b.r.npu);
        if (b.error != f->expected || !strstr(text, f->text)) {
            fail_msg("fault %zu (%c, %s): status 0x%x, '%s'", i, f->abi, f->text, b.error, text);
        }
        assert_int_equal(b.n_errors, 1);
        // The queue stays where it stopped; a good packet behind it does not run either.
        make_b(&b);
        send(&b);
        assert_int_equal(b.n_errors, 1);
        assert_int_equal(b.r.hsa_queue_load_read_index_scacquire(b.queue), 0);
        assert_int_equal(b.r.hsa_queue_destroy(b.queue), 0);
        queue_new(&b);
    }
    struct hsa_emu_counters c;
    assert_int_equal(b.r.hsa_emu_counters(b.r.npu, &c), 0);
    assert_int_equal(c.dispatches, 0);
    assert_int_equal(c.errors, sizeof faults / sizeof faults[0]);
    assert_int_equal(c.queues_created, sizeof faults / sizeof faults[0] + 1);
    assert_int_equal(b.r.hsa_signal_load_relaxed(b.done), 1);
    bench_close(&b);
}

// A well-formed packet gets as far as the machine, which must refuse an empty PDI; on its way ROCr
// has put the device address into the payload.
static void test_payload_is_rewritten(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, NULL);
    bench_open(&b);
    // A stream with bit 24 in its address, the bit that the rewriting loses: without it the heap
    // may lie where device and host address have the same bits, and the second send would be right.
    // What lies 16 MiB before it is given back, for that may be where the second send points.
    uint8_t * before = rig_alloc(&b.r, b.r.heap, 16 << 20);
    b.insts = rig_alloc(&b.r, b.r.heap, 4096);
    assert_true((uintptr_t) b.insts & 1 << 24);
    assert_int_equal(b.r.hsa_amd_memory_pool_free(before), 0);
    make_b(&b);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_EXCEPTION);
    uint32_t low, high;
    memcpy(&low, b.payload + 16, 4);
    memcpy(&high, b.payload + 20, 4);
    assert_int_equal(low, 0x04000000u | ((uintptr_t) b.insts & 0x02FFFFFF));
    assert_int_equal(high, (uintptr_t) b.insts >> 32);
    // The same payload again: what stands there now is no host address.
    assert_int_equal(b.r.hsa_queue_destroy(b.queue), 0);
    queue_new(&b);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_ALLOCATION);
    bench_close(&b);
}

// A payload in a page that may be read only: the device address has no place there, and that is no
// reason to end the process.
static void test_payload_may_not_be_written(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, NULL);
    bench_open(&b);
    uint8_t * page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    make_b(&b);
    memcpy(page, b.payload, 256);
    put(b.packet, 56, (uintptr_t) page, 8);
    assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_EXCEPTION); // as far as the machine
    assert_memory_equal(page, b.payload, 256);
    munmap(page, 4096);
    bench_close(&b);
}

static void test_ring_indices(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, NULL);
    bench_open(&b);
    // Nothing to do is nothing wrong.
    b.r.hsa_signal_store_relaxed(b.queue->doorbell_signal, 0);
    assert_int_equal(b.n_errors, 0);
    // Slots that were never written are no packets.
    b.r.hsa_queue_add_write_index_relaxed(b.queue, 1);
    b.r.hsa_signal_store_relaxed(b.queue->doorbell_signal, 0);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
    b.r.hsa_queue_destroy(b.queue);
    queue_new(&b);
    b.r.hsa_queue_add_write_index_relaxed(b.queue, 65);
    b.r.hsa_signal_store_relaxed(b.queue->doorbell_signal, 64);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
    assert_non_null(strstr(b.r.hsa_emu_last_error(b.r.npu), "64 slots"));
    bench_close(&b);
}

// A batch that ROCr 7.2 or the driver below it does not survive.
static void expect_bug(struct bench * b, const char * text) {
    if (b->error == HSA_STATUS_SUCCESS || !strstr(b->r.hsa_emu_last_error(b->r.npu), text)) {
        fail_msg("status 0x%x, '%s': no '%s'", b->error, b->r.hsa_emu_last_error(b->r.npu), text);
    }
    b->r.hsa_queue_destroy(b->queue);
    queue_new(b);
}

static void test_rocr_batches(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, "1");
    bench_open(&b);
    make_b(&b); // 9 words that count are 11 in the command
    send(&b);
    expect_bug(&b, "number is odd");
    make_b(&b);
    put(b.packet, 4, 1 | 10u << 12, 4);
    put(b.payload, 28, (uintptr_t) b.operand + 64, 8); // inside the topmost buffer
    uint8_t * top = b.operand;
    for (int i = 0; i < 3; i++) {
        uint8_t * others[] = {b.pdi, b.insts, b.payload};
        top = others[i] > top ? others[i] : top;
    }
    put(b.payload, 28, (uintptr_t) top + 64, 8);
    put(b.payload, 44, 64, 4);
    send(&b);
    expect_bug(&b, "topmost buffer");
    bench_close(&b);
}

// What ROCr 7.2 refuses and its successors take.
static void test_rocr_bugs(void ** state) {
    (void) state;
    struct bench b;
    rig_env("aie2", NULL, "1");
    bench_open(&b);
    make_d(&b);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
    b.r.hsa_queue_destroy(b.queue);
    queue_new(&b);
    make_b(&b);
    put(b.packet, 0, 1 << 9, 2); // an acquire fence
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
    assert_non_null(strstr(b.r.hsa_emu_last_error(b.r.npu), "no other bit"));
    b.r.hsa_queue_destroy(b.queue);
    queue_new(&b);
    make_b(&b);
    b.r.hsa_queue_store_read_index_relaxed(b.queue, 64);
    b.r.hsa_queue_store_write_index_relaxed(b.queue, 64);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
    assert_non_null(strstr(b.r.hsa_emu_last_error(b.r.npu), "wrap"));
    uint16_t minor = 0;
    assert_int_equal(b.r.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor), 0);
    assert_int_equal(minor, 1); // as Debian's build
    uint16_t extensions = 0;
    assert_int_equal(b.r.hsa_system_get_info((hsa_system_info_t) 0x208, &extensions), 0);
    assert_int_equal(extensions, 15);
    const char * build = NULL;
    assert_int_equal(b.r.hsa_system_get_info((hsa_system_info_t) 0x200, &build), 0);
    assert_memory_equal(build, "\"1.18.0-", 8);
    bench_close(&b);

    rig_env("aie2", NULL, NULL);
    bench_open(&b);
    make_b(&b);
    put(b.packet, 0, 1 << 9, 2);
    send(&b);
    assert_int_equal(b.error, HSA_STATUS_ERROR_EXCEPTION); // as far as the machine
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_payload_is_rewritten),
        cmocka_unit_test(test_ring_indices),
        cmocka_unit_test(test_rocr_bugs),
        cmocka_unit_test(test_payload_may_not_be_written),
        cmocka_unit_test(test_rocr_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
