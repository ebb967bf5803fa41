// fuzz-runtime: the doors of the emulated HSA runtime, the functions that programs call, with
// handles that are stale, of another kind or made up, pointers into the middle of things, sizes
// that wrap, and packets of both kinds of queues with any field changed. Every call comes back with
// a status that has a name, and memory of the process that was never given to the runtime stays as
// it is.
//
// What a C program can do to itself by any call is left out: pointers to results are good or NULL,
// copies without an agent begin in a block and have good memory on the other side, and memory is
// not freed below a copy that waits.
#include "kernel-seeds.h"

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

const int fuzz_rounds = 12;
const int fuzz_longest = 240;

enum { MOST = 8, PAGE = 4096, GUARD = 4 << 20 };

struct list {
    uint64_t items[MOST];
    size_t n;
};

static struct {
    struct fuzz_input in;
    struct list agents, pools, blocks, locked, signals, queues, handles, ranges, readers,
        executables;
    hsa_agent_t npu, gpu;
    hsa_amd_memory_pool_t heap, kernarg, data;
    uint8_t *pdi, *insts, *payload, *operand; // of the NPU
    uint64_t insts_words;
    uint64_t gone; // a block that was freed
    bool pending;  // a copy may wait
} now;

static FILE * report;
static uint8_t *host, *victim, *nowhere; // a page each, with nothing around it
static struct kernel_code code;

// ---- values ----

static uint64_t any_of(const struct list * l) {
    return l->n ? l->items[fuzz_next(&now.in) % l->n] : 0;
}

static void keep(struct list * l, uint64_t item) {
    if (l->n < MOST) {
        l->items[l->n++] = item;
    }
}

static void forget(struct list * l, uint64_t item) {
    for (size_t i = 0; i < l->n; i++) {
        if (l->items[i] == item) {
            l->items[i--] = l->items[--l->n];
        }
    }
}

static uint64_t offset(void) {
    static const uint32_t offsets[] = {0, 0, 0, 0, 1, 2, 4, 8, 64, 2048, 4092, 4095, 4096, 4097};
    return FUZZ_PICK(&now.in, offsets);
}

// A pointer or a handle, of anything.
static uint64_t value(void) {
    switch (fuzz_next(&now.in) % 16) {
    case 0:
        return fuzz_next(&now.in);
    case 1:
        return fuzz_number(&now.in, 8);
    case 2:
        return UINT64_MAX - offset();
    case 3:
        return any_of(&now.signals);
    case 4:
        return any_of(&now.queues) + offset();
    case 5:
        return any_of(&now.agents);
    case 6:
        return any_of(&now.pools);
    case 7:
        return now.gone + offset();
    case 8:
        return (uint64_t) (uintptr_t) victim + offset();
    case 9:
        return (uint64_t) (uintptr_t) nowhere + offset();
    case 10:
        return any_of(&now.ranges) + offset();
    case 11:
        return any_of(&now.handles);
    case 12:
        return any_of(&now.locked) + offset();
    default:
        return any_of(&now.blocks) + offset();
    }
}

// Mostly of the right kind.
static uint64_t mostly(const struct list * l) {
    return fuzz_next(&now.in) % 8 ? any_of(l) : value();
}

// Small, or more than there is: what lies between would only take memory.
static uint64_t size(void) {
    static const uint64_t sizes[] = {0,
                                     1,
                                     3,
                                     4,
                                     64,
                                     4092,
                                     4095,
                                     4096,
                                     4097,
                                     8192,
                                     65536,
                                     1 << 20,
                                     (uint64_t) 1 << 48,
                                     INT64_MAX,
                                     (uint64_t) 1 << 63,
                                     UINT64_MAX - 4095,
                                     UINT64_MAX - 4096,
                                     UINT64_MAX};
    return FUZZ_PICK(&now.in, sizes);
}

static void * pointer(uint64_t at) {
    return (void *) (uintptr_t) at;
}

static hsa_agent_t agent(void) {
    return (hsa_agent_t){mostly(&now.agents)};
}

static hsa_signal_t signal_(void) {
    return (hsa_signal_t){mostly(&now.signals)};
}

static void * result(void * good) {
    return fuzz_next(&now.in) % 16 ? good : NULL;
}

static hsa_status_t said(hsa_status_t status) {
    const char * text = NULL;
    if (hsa_status_string(status, &text) != HSA_STATUS_SUCCESS || !text || !text[0]) {
        fprintf(report, "status 0x%x has no name\n", (unsigned) status);
        abort();
    }
    return status;
}

// ---- agents and pools ----

static void ask(void) {
    static uint64_t out[1024];
    uint32_t what = fuzz_next(&now.in), attribute = (uint32_t) fuzz_number(&now.in, 2);
    attribute = attribute & 0x8000 ? 0xa000 + attribute % 64 : attribute % 64;
    void * to = result(out);
    switch (what % 6) {
    case 0:
        said(hsa_agent_get_info(agent(), (hsa_agent_info_t) attribute, to));
        break;
    case 1:
        said(hsa_amd_memory_pool_get_info((hsa_amd_memory_pool_t){mostly(&now.pools)},
                                          (hsa_amd_memory_pool_info_t) attribute, to));
        break;
    case 2:
        said(hsa_amd_agent_memory_pool_get_info(agent(),
                                                (hsa_amd_memory_pool_t){mostly(&now.pools)},
                                                (hsa_amd_agent_memory_pool_info_t) attribute, to));
        break;
    case 3:
        said(hsa_system_get_info((hsa_system_info_t) attribute, to));
        break;
    case 4:
        said(hsa_cache_get_info((hsa_cache_t){value()}, (hsa_cache_info_t) attribute, to));
        break;
    default:
        said(hsa_isa_get_info_alt((hsa_isa_t){value()}, (hsa_isa_info_t) attribute, to));
    }
}

// ---- memory ----

static void allocate(void) {
    void * p = NULL;
    hsa_amd_memory_pool_t pool = {mostly(&now.pools)};
    uint64_t bytes = size();
    void ** to = result(&p);
    if (said(hsa_amd_memory_pool_allocate(pool, bytes, fuzz_next(&now.in) % 32 / 28, to)) ==
        HSA_STATUS_SUCCESS) {
        keep(&now.blocks, (uint64_t) (uintptr_t) p);
    }
}

static void release(void) {
    uint64_t p = mostly(&now.blocks);
    bool of_packets = p == (uint64_t) (uintptr_t) now.payload; // which is written below
    if (!now.pending && !of_packets && said(hsa_amd_memory_pool_free(pointer(p))) == 0 && p) {
        forget(&now.blocks, p);
        now.gone = p;
        now.pdi = p == (uint64_t) (uintptr_t) now.pdi ? NULL : now.pdi;
    }
}

static void grant(void) {
    hsa_agent_t agents[3] = {agent(), agent(), agent()};
    said(hsa_amd_agents_allow_access(fuzz_next(&now.in) % 4, result(agents), NULL,
                                     pointer(value())));
}

static void lock(void) {
    static const uint16_t at[] = {0, 0, 0, 1, 100, 4092, 4095};
    hsa_agent_t agents[2] = {agent(), agent()};
    uint32_t n = fuzz_next(&now.in) % 4;
    uint8_t * base = fuzz_next(&now.in) % 4 ? host : nowhere;
    uint64_t from = (uint64_t) (uintptr_t) base + FUZZ_PICK(&now.in, at), bytes = size();
    void * p = NULL;
    hsa_status_t status =
        n == 3 ? hsa_memory_register(pointer(from), bytes)
               : hsa_amd_memory_lock(pointer(from), bytes, n ? agents : NULL, (int) n, result(&p));
    if (said(status) == HSA_STATUS_SUCCESS) {
        if (base == nowhere) {
            fprintf(report, "memory that nobody may touch was locked\n");
            abort();
        }
        keep(&now.locked, n == 3 ? from : (uint64_t) (uintptr_t) p);
    }
}

static void unlock(void) {
    uint64_t p = mostly(&now.locked), bytes = size();
    if (!now.pending) {
        said(fuzz_next(&now.in) % 2 ? hsa_amd_memory_unlock(pointer(p))
                                    : hsa_memory_deregister(pointer(p), bytes));
    }
}

static void look(void) {
    hsa_amd_pointer_info_t info = {.size = sizeof info};
    uint32_t n = 0;
    hsa_agent_t * list = NULL;
    uint64_t p = value();
    if (said(hsa_amd_pointer_info(pointer(p), result(&info), NULL, &n, &list)) ==
        HSA_STATUS_SUCCESS) {
        free(list);
    }
    said(hsa_amd_pointer_info_set_userdata(pointer(value()), NULL));
}

static void fill(void) {
    uint64_t p = value(), n = size();
    said(hsa_amd_memory_fill(pointer(p), 0x01020304, n));
}

// One side may be memory of the process; then there is as much as is copied.
static void copy(void) {
    static uint8_t own[1 << 20];
    uint64_t a = any_of(&now.blocks) + offset() % PAGE, n = size();
    if (a < PAGE || n > sizeof own) {
        return;
    }
    said(fuzz_next(&now.in) % 2 ? hsa_memory_copy(pointer(a), own, n)
                                : hsa_memory_copy(own, pointer(a), n));
}

static void copy_later(void) {
    hsa_signal_t deps[2] = {signal_(), signal_()};
    uint32_t n = fuzz_next(&now.in) % 3;
    uint64_t to = value(), from = value(), bytes = size();
    hsa_agent_t a = fuzz_next(&now.in) % 4 ? now.gpu : agent(), b = agent();
    hsa_signal_t done = fuzz_next(&now.in) % 4 ? signal_() : (hsa_signal_t){0};
    if (a.handle != now.gpu.handle && b.handle != now.gpu.handle) {
        return; // between hosts any memory will do
    }
    now.pending |= said(hsa_amd_memory_async_copy(pointer(to), a, pointer(from), b, bytes, n,
                                                  result(deps), done)) == HSA_STATUS_SUCCESS;
}

static void copy_rectangle(void) {
    hsa_pitched_ptr_t to = {pointer(value()), size(), size()},
                      from = {pointer(value()), size(), size()};
    hsa_dim3_t at[2] = {{fuzz_next(&now.in), fuzz_next(&now.in), (uint32_t) size()},
                        {(uint32_t) size(), fuzz_next(&now.in), fuzz_next(&now.in)}},
               range = {(uint32_t) size(), fuzz_next(&now.in), fuzz_next(&now.in)};
    said(hsa_amd_memory_async_copy_rect(result(&to), &at[0], result(&from), &at[1], &range, now.gpu,
                                        hsaDeviceToDevice, 0, NULL, signal_()));
}

// ---- addresses without memory ----

hsa_status_t vmem_reserve(void ** va, size_t size, uint64_t address,
                          uint64_t flags) __asm__("hsa_amd_vmem_address_reserve");
hsa_status_t vmem_free(void * va, size_t size) __asm__("hsa_amd_vmem_address_free");
hsa_status_t vmem_create(hsa_amd_memory_pool_t pool, size_t size, uint32_t type, uint64_t flags,
                         uint64_t * handle) __asm__("hsa_amd_vmem_handle_create");
hsa_status_t vmem_release(uint64_t handle) __asm__("hsa_amd_vmem_handle_release");
hsa_status_t vmem_map(void * va, size_t size, size_t offset, uint64_t handle,
                      uint64_t flags) __asm__("hsa_amd_vmem_map");
hsa_status_t vmem_unmap(void * va, size_t size) __asm__("hsa_amd_vmem_unmap");
struct vmem_access {
    uint32_t permissions;
    hsa_agent_t agent;
};
hsa_status_t vmem_set_access(void * va, size_t size, const struct vmem_access * access,
                             size_t n) __asm__("hsa_amd_vmem_set_access");
hsa_status_t vmem_get_access(void * va, uint32_t * permissions,
                             hsa_agent_t agent) __asm__("hsa_amd_vmem_get_access");

static void virtual_memory(void) {
    void * va = NULL;
    uint64_t handle = 0, p;
    uint32_t permissions;
    struct vmem_access access = {fuzz_next(&now.in) % 4, agent()};
    switch (fuzz_next(&now.in) % 8) {
    case 0:
        if (said(vmem_reserve(result(&va), size(), value(), fuzz_next(&now.in) % 2)) == 0) {
            keep(&now.ranges, (uint64_t) (uintptr_t) va);
        }
        break;
    case 1:
        p = mostly(&now.ranges);
        if (!now.pending && said(vmem_free(pointer(p), size())) == 0) {
            forget(&now.ranges, p);
        }
        break;
    case 2:
        if (said(vmem_create((hsa_amd_memory_pool_t){mostly(&now.pools)}, size(),
                             fuzz_next(&now.in) % 3, 0, result(&handle))) == 0) {
            keep(&now.handles, handle);
        }
        break;
    case 3:
        p = mostly(&now.handles);
        if (said(vmem_release(p)) == 0) {
            forget(&now.handles, p);
        }
        break;
    case 4:
    case 5:
        p = mostly(&now.ranges) + offset();
        said(vmem_map(pointer(p), size(), offset(), mostly(&now.handles), 0));
        break;
    case 6:
        p = mostly(&now.ranges) + offset();
        if (!now.pending) {
            said(vmem_unmap(pointer(p), size()));
        }
        break;
    default:
        p = mostly(&now.ranges);
        said(vmem_set_access(pointer(p), size(), result(&access), fuzz_next(&now.in) % 2));
        said(vmem_get_access(pointer(p), result(&permissions), agent()));
    }
}

// ---- signals ----

static bool handler(hsa_signal_value_t v, void * data) {
    (void) data;
    return v % 3 == 1;
}

static void signals(void) {
    hsa_signal_t s = {0}, t = signal_();
    hsa_signal_condition_t c = (hsa_signal_condition_t) (fuzz_next(&now.in) % 6);
    hsa_signal_value_t v = (hsa_signal_value_t) fuzz_next(&now.in) - 2, got;
    switch (fuzz_next(&now.in) % 8) {
    case 0:
    case 1:
        if (said(hsa_signal_create(v, 0, NULL, result(&s))) == HSA_STATUS_SUCCESS) {
            keep(&now.signals, s.handle);
        }
        break;
    case 2:
        if (said(hsa_signal_destroy(t)) == HSA_STATUS_SUCCESS) {
            forget(&now.signals, t.handle);
        }
        break;
    case 3:
        hsa_signal_store_screlease(t, v);
        hsa_signal_add_relaxed(t, v);
        break;
    case 4:
        hsa_signal_cas_scacq_screl(t, v, hsa_signal_load_scacquire(t));
        hsa_signal_wait_scacquire(t, c, v, 0, HSA_WAIT_STATE_BLOCKED);
        break;
    case 5: {
        hsa_signal_t many[2] = {t, signal_()};
        hsa_signal_condition_t conditions[2] = {c, HSA_SIGNAL_CONDITION_EQ};
        hsa_signal_value_t compares[2] = {v, 0};
        hsa_amd_signal_wait_any(fuzz_next(&now.in) % 3, result(many), conditions, compares, 0,
                                HSA_WAIT_STATE_ACTIVE, result(&got));
        break;
    }
    case 6:
        said(hsa_amd_signal_async_handler(t, c, v, handler, NULL));
        break;
    default: {
        hsa_amd_profiling_dispatch_time_t time;
        said(hsa_amd_profiling_get_dispatch_time(agent(), t, result(&time)));
    }
    }
}

// ---- queues ----

static void on_error(hsa_status_t status, hsa_queue_t * queue, void * data) {
    (void) queue, (void) data;
    said(status);
}

static void queue_new(void) {
    static const uint32_t sizes[] = {64, 64, 64, 128, 0, 1, 63, 1u << 31, UINT32_MAX};
    hsa_queue_t * q = NULL;
    hsa_agent_t a = fuzz_next(&now.in) % 8 ? (fuzz_next(&now.in) % 2 ? now.gpu : now.npu) : agent();
    uint32_t packets = FUZZ_PICK(&now.in, sizes);
    if (said(hsa_queue_create(a, packets, fuzz_next(&now.in) % 8 ? HSA_QUEUE_TYPE_SINGLE : 2,
                              on_error, NULL, (uint32_t) size(), 0, result(&q))) ==
        HSA_STATUS_SUCCESS) {
        keep(&now.queues, (uint64_t) (uintptr_t) q);
    }
}

static void queue_end(void) {
    uint64_t q = mostly(&now.queues);
    uint32_t mask[2] = {0};
    switch (fuzz_next(&now.in) % 4) {
    case 0:
        if (said(hsa_queue_destroy(pointer(q))) == HSA_STATUS_SUCCESS) {
            forget(&now.queues, q);
        }
        break;
    case 1:
        said(hsa_queue_inactivate(pointer(q)));
        break;
    case 2:
        said(hsa_amd_queue_cu_set_mask(pointer(q), fuzz_next(&now.in) % 65, result(mask)));
        break;
    default:
        said(hsa_amd_queue_set_priority(pointer(q), (hsa_amd_queue_priority_t) fuzz_next(&now.in)));
    }
}

static void put(uint8_t * at, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t) (v >> 8 * i);
    }
}

// Both layouts of a NPU's packets, as test-hsa-packets has them.
static void npu_packet(uint8_t p[64], bool dispatch) {
    uint8_t * y = now.payload;
    uint64_t operand = (uint64_t) (uintptr_t) now.operand;
    memset(y, 0, 256);
    if (dispatch) {
        put(p + 4, 24, 2);
        put(p + 20, (uintptr_t) now.insts, 8);
        put(p + 28, 3, 2);
        put(p + 32, (uintptr_t) y, 8);
        put(p + 40, 4 * now.insts_words, 8);
        put(p + 48, (uintptr_t) now.pdi, 8);
        for (size_t i = 0; i < 3; i++) {
            put(y + 8 * i, operand + 1024 * i, 8);
            put(y + 24 + 8 * i, 1024, 8);
        }
        return;
    }
    put(p + 2, 3, 1);
    put(p + 4, 1 | 12u << 12, 4);
    put(p + 56, (uintptr_t) y, 8);
    put(y, (uintptr_t) now.pdi, 8);
    put(y + 8, 3, 8);
    put(y + 16, (uintptr_t) now.insts, 8);
    put(y + 24, now.insts_words, 4);
    for (size_t i = 0; i < 3; i++) {
        put(y + 28 + 8 * i, operand + 1024 * i, 8);
        put(y + 52 + 4 * i, 1024, 4);
    }
}

static void gpu_packet(uint8_t p[64], uint32_t kind) {
    static const uint16_t types[] = {HSA_PACKET_TYPE_BARRIER_AND, HSA_PACKET_TYPE_KERNEL_DISPATCH,
                                     HSA_PACKET_TYPE_BARRIER_OR, HSA_PACKET_TYPE_VENDOR_SPECIFIC};
    put(p, types[kind % 4] | (kind & 16 ? 1u << HSA_PACKET_HEADER_BARRIER : 0), 2);
    if (types[kind % 4] == HSA_PACKET_TYPE_KERNEL_DISPATCH) {
        put(p + 2, 1, 2); // dimensions
        put(p + 4, 0x000100010040, 6);
        put(p + 12, 64, 4);
        put(p + 16, 1, 4);
        put(p + 20, 1, 4);
        put(p + 32, value(), 8); // the kernel
        put(p + 40, value(), 8);
    } else {
        put(p + 8, kind & 32 ? any_of(&now.signals) : 0, 8);
    }
    put(p + 56, kind & 64 ? any_of(&now.signals) : 0, 8);
}

static void ring(void) {
    static const uint8_t fields[] = {0, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56};
    uint64_t handle = any_of(&now.queues);
    hsa_queue_t * q = pointer(handle);
    uint32_t kind = fuzz_next(&now.in), changes = fuzz_next(&now.in) % 4;
    uint8_t p[64] = {0};
    if (!q) {
        return;
    }
    if (q->features) {
        gpu_packet(p, kind);
    } else {
        npu_packet(p, kind % 2);
    }
    for (uint32_t i = 0; i < changes; i++) {
        uint32_t where = fuzz_next(&now.in);
        uint8_t * at = (where & 128 && !q->features ? now.payload : p) + FUZZ_PICK(&now.in, fields);
        put(at, where & 64 ? size() : value(), where & 32 ? 4 : 8);
    }
    uint64_t index = hsa_queue_load_write_index_relaxed(q),
             next = kind & 128 ? index + size() : index + 1;
    memcpy((uint8_t *) q->base_address + index % q->size * 64, p, sizeof p);
    hsa_queue_store_write_index_screlease(q, next);
    hsa_signal_store_screlease(q->doorbell_signal,
                               (hsa_signal_value_t) (kind & 8 ? size() : next - 1));
    if (q->features) { // it has a thread of its own: a moment of it
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

// ---- programs ----

static hsa_status_t symbol(hsa_executable_t e, hsa_agent_t a, hsa_executable_symbol_t s, void * d) {
    static uint64_t out[64];
    (void) e, (void) a, (void) d;
    return said(hsa_executable_symbol_get_info(s, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, out));
}

static void programs(void) {
    static const uint8_t bytes[256] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 64};
    static uint64_t out[64];
    hsa_code_object_reader_t reader = {mostly(&now.readers)};
    hsa_executable_t e = {mostly(&now.executables)};
    hsa_executable_symbol_t s = {value()};
    hsa_agent_t a = agent();
    switch (fuzz_next(&now.in) % 9) {
    case 0:
        if (said(hsa_code_object_reader_create_from_memory(bytes, fuzz_next(&now.in) % sizeof bytes,
                                                           result(&reader))) == 0) {
            keep(&now.readers, reader.handle);
        }
        break;
    case 1:
        if (said(hsa_code_object_reader_destroy(reader)) == HSA_STATUS_SUCCESS) {
            forget(&now.readers, reader.handle);
        }
        break;
    case 2:
        if (said(hsa_executable_create_alt(HSA_PROFILE_FULL,
                                           HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL,
                                           result(&e))) == HSA_STATUS_SUCCESS) {
            keep(&now.executables, e.handle);
        }
        break;
    case 3:
        if (said(hsa_executable_destroy(e)) == HSA_STATUS_SUCCESS) {
            forget(&now.executables, e.handle);
        }
        break;
    case 4:
        said(hsa_executable_load_agent_code_object(e, a, reader, NULL, NULL));
        break;
    case 5:
        said(hsa_executable_freeze(e, NULL));
        break;
    case 6:
        said(hsa_executable_get_symbol_by_name(e, "k.kd", &a, result(&s)));
        break;
    case 7:
        said(hsa_executable_iterate_agent_symbols(e, a, symbol, NULL));
        break;
    default:
        said(hsa_executable_symbol_get_info(
            s, (hsa_executable_symbol_info_t) (fuzz_next(&now.in) % 32), result(out)));
        said(hsa_executable_agent_global_variable_define(e, a, "v", pointer(value())));
    }
}

// ---- one life of the runtime ----

static hsa_status_t see_pool(hsa_amd_memory_pool_t pool, void * data) {
    uint32_t * n = data;
    keep(&now.pools, pool.handle);
    hsa_amd_memory_pool_t * const of_npu[] = {&now.kernarg, &now.heap, &now.data};
    if (*n < 3) {
        *of_npu[*n] = pool;
    }
    ++*n;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t see_agent(hsa_agent_t a, void * data) {
    (void) data;
    uint32_t device = 0, n = 3;
    keep(&now.agents, a.handle);
    said(hsa_agent_get_info(a, HSA_AGENT_INFO_DEVICE, &device));
    if (device == HSA_DEVICE_TYPE_GPU) {
        now.gpu = a;
    } else if (device != HSA_DEVICE_TYPE_CPU) {
        now.npu = a;
        n = 0;
    }
    return hsa_amd_agent_iterate_memory_pools(a, see_pool, &n);
}

static uint8_t * allocate_for(hsa_amd_memory_pool_t pool, const void * bytes, size_t n) {
    void * p = NULL;
    if (hsa_amd_memory_pool_allocate(pool, n, 0, &p) != HSA_STATUS_SUCCESS) {
        abort();
    }
    if (bytes) {
        memcpy(p, bytes, n);
    }
    keep(&now.blocks, (uint64_t) (uintptr_t) p);
    return p;
}

static uint8_t * lone_page(int protection) {
    uint8_t * p =
        mmap(NULL, 2 * GUARD + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p + GUARD, PAGE, protection)) {
        abort();
    }
    return p + GUARD;
}

static void begin(void) {
    if (!host) {
        host = lone_page(PROT_READ | PROT_WRITE);
        victim = lone_page(PROT_READ | PROT_WRITE);
        nowhere = lone_page(PROT_NONE);
        memset(victim, 0x5a, PAGE);
        setenv("GGML_HSA_EMULATE", "aie2,gfx1100", 1);
        setenv("GGML_HSA_EMU_THREADS", "1", 1);
        report = stderr;
        stderr = fopen("/dev/null", "w"); // each error of the runtime is a line there
        if (!stderr || !kernel_seed(AIE_ARCH_AIE2, 0, &code)) {
            abort();
        }
    }
    memset(&now, 0, sizeof now);
    if (hsa_init() != HSA_STATUS_SUCCESS ||
        hsa_iterate_agents(see_agent, NULL) != HSA_STATUS_SUCCESS || !now.npu.handle ||
        !now.gpu.handle) {
        abort();
    }
    now.pdi = allocate_for(now.heap, code.pdi, code.pdi_size);
    now.insts = allocate_for(now.heap, code.insts, 4 * code.n_insts);
    now.insts_words = code.n_insts;
    now.payload = allocate_for(now.kernarg, NULL, PAGE);
    now.operand = allocate_for(now.data, NULL, PAGE);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t bytes) {
    static void (*const doors[])(void) = {
        ask,  allocate,       release,    grant,          lock,      unlock,  look,
        fill, copy,           copy_later, queue_new,      queue_end, ring,    ring,
        ring, copy_rectangle, signals,    virtual_memory, programs,  signals,
    };
    begin();
    now.in = (struct fuzz_input){data, bytes};
    while (now.in.left) {
        FUZZ_PICK(&now.in, doors)();
    }
    if (hsa_shut_down() != HSA_STATUS_SUCCESS || hsa_shut_down() == HSA_STATUS_SUCCESS) {
        abort();
    }
    for (int i = 0; i < PAGE; i++) {
        if (victim[i] != 0x5a) {
            fprintf(report, "memory that was not given was written\n");
            abort();
        }
    }
    return 0;
}

bool fuzz_seed(int i, uint8_t ** data, size_t * size) {
    // A queue of the NPU: 10, 1, 0, 0, 0, 0, 1; of the GPU with 1 for its third. A packet: 12, a
    // queue, its kind, how many fields are changed, each as what, which, and a value.
    static const uint8_t npu[] = {10, 1, 0, 0, 1, 0, 1, 12, 0, 0, 0, 12, 0, 1, 0};
    static const uint8_t astray[] = {10, 1, 0, 0, 1, 0, 1, 12, 0, 1, 2, 0, 14, 8, 0, 32, 4, 0, 9};
    static const uint8_t gpu[] = {10, 1, 1,  0, 1, 0, 1,  16, 0, 0, 3,
                                  0,  1, 12, 0, 0, 0, 12, 0,  1, 0};
    static const uint8_t memory[] = {1, 1, 0, 7, 1, 0, 7,  12, 0, 0,  8, 8, 0, 0, 11, 1,
                                     4, 1, 1, 1, 0, 1, 0,  7,  1, 5,  0, 0, 2, 1, 0,  0,
                                     9, 1, 0, 1, 0, 0, 12, 0,  0, 12, 1, 0, 4, 1, 1,  0};
    static const uint8_t reserved[] = {17, 1, 0, 0, 1, 7, 0, 0, 17, 1, 0, 2,  1, 3, 7, 1,
                                       17, 1, 0, 4, 1, 0, 0, 7, 0,  1, 0, 17, 1, 0, 7, 1};
    static const uint8_t code_objects[] = {18, 0, 0, 0, 0, 0, 0, 64, 1, 18, 0, 0, 0, 0, 0, 2, 1,
                                           18, 1, 0, 1, 0, 0, 0, 0,  4, 18, 1, 0, 1, 0, 0, 0, 5};
    static const struct {
        const uint8_t * bytes;
        size_t n;
    } seeds[] = {{npu, sizeof npu},           {astray, sizeof astray},
                 {gpu, sizeof gpu},           {memory, sizeof memory},
                 {reserved, sizeof reserved}, {code_objects, sizeof code_objects}};
    return (size_t) i < sizeof seeds / sizeof seeds[0] &&
           fuzz_bytes(seeds[i].bytes, seeds[i].n, data, size);
}
