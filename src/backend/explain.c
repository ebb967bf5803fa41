// explain: GGML_HSA_EXPLAIN=1, why a device does not compute a node: the op, the shapes and the
// limit that was met, once for each of them in a process. The lines go to standard error: programs
// filter ggml's log, and llama.cpp switches it off while it asks what fits. Without the variable
// nothing here is done, and the reasons are not even made up.
//
// A line that was said is remembered by its hash alone. After MOST different lines of an op there
// is a last one that says so.
#include "backend.h"

#include <stdio.h>

// Ops that a later ggml has are counted together.
enum { MOST = 32, OPS = GGML_OP_COUNT + 1, SLOTS = 2 * (MOST + 1) * OPS };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool asked;
static uint64_t said[SLOTS]; // 0: free
static int n_said[OPS];

static void ask(void) {
    asked = env_flag("GGML_HSA_EXPLAIN", false);
}

bool explain_asked(void) {
    pthread_once(&once, ask);
    return asked;
}

// "f32[4096,2]"; dimensions of 1 at the end are left out.
static void add_tensor(struct buf * b, const struct ggml_tensor * t) {
    int n = GGML_MAX_DIMS;
    while (n > 1 && t->ne[n - 1] == 1) {
        n--;
    }
    bool known = (unsigned) t->type < GGML_TYPE_COUNT; // a later ggml may have more
    buf_printf(b, "%s[", known ? ggml_type_name(t->type) : "unknown");
    for (int d = 0; d < n; d++) {
        buf_printf(b, "%s%lld", d ? "," : "", (long long) t->ne[d]);
    }
    buf_printf(b, "]%s", known && !ggml_is_contiguous(t) ? " strided" : "");
}

// "ARGSORT f32[4096,2] -> i32[4096,2]".
static void explain_node(struct buf * b, const struct ggml_tensor * node) {
    buf_printf(b, "%s", op_label(node));
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (node->src[i]) {
            buf_printf(b, " ");
            add_tensor(b, node->src[i]);
        }
    }
    buf_printf(b, " -> ");
    add_tensor(b, node);
}

static uint64_t hash_of(const struct buf * b) {
    uint64_t h = fnv_add(FNV_BEGIN, b->data, b->size);
    return h ? h : 1;
}

// Is it new? The caller holds the lock.
static bool remember(uint64_t hash, int * n) {
    size_t at = hash % SLOTS;
    while (said[at] && said[at] != hash) {
        at = (at + 1) % SLOTS;
    }
    bool fresh = !said[at] && *n <= MOST;
    if (fresh) {
        said[at] = hash;
        ++*n;
    }
    return fresh;
}

void explain_refusal(const struct hsa_device * device, const struct ggml_tensor * node, bool on_cpu,
                     const struct error * why) {
    struct buf b = {0};
    buf_printf(&b, "%s: ", device->name);
    explain_node(&b, node);
    buf_printf(&b, " %s: %s", on_cpu ? "is computed on the CPU" : "is left to another device",
               why->text[0] ? why->text : "it gives no reason");
    if (b.failed) {
        buf_free(&b);
        return;
    }
    int * n = &n_said[(unsigned) node->op < GGML_OP_COUNT ? node->op : GGML_OP_COUNT];
    pthread_mutex_lock(&lock);
    bool fresh = remember(hash_of(&b), n), last = fresh && *n > MOST;
    pthread_mutex_unlock(&lock);
    if (last) {
        log_stderr("%s: %s has more shapes than the %d above; they are not explained", device->name,
                   op_label(node), MOST);
    } else if (fresh) {
        log_stderr("%s%s%.64s", (const char *) b.data, node->name[0] ? "; first: " : "",
                   node->name);
    }
    buf_free(&b);
}
