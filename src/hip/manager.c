// manager: get_or_compile. A code object is looked for in memory, then on disk, then it is made.
//
// Kept true: within a process one thread makes it and the others wait for that thread; between
// processes the lock of its name does the same. Trouble with the disk is a warning, never an error:
// what was compiled is in memory, and that is all that the caller needs.
#include "hip-impl.h"

#include "base/plain.h"
#include "base/process.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert((int) ROCM_OK == ST_OK && (int) ROCM_INVALID == ST_INVALID &&
                  (int) ROCM_DEVICE == ST_DEVICE && (int) ROCM_BUSY == ST_BUSY,
              "the public statuses are those of base");

#define MAX_CODES 4096 // distinct sources in one process
#define MAX_SAID  1000 // bytes of a compiler's output that does not say "error:"

struct hip_code {
    struct rocm_code code; // what callers see; first
    struct hip_code * next;
    char arch[HIP_ARCH_MAX], name[HIP_NAME_MAX];
    uint8_t source[SHA256_BYTES];
    bool ready; // false: somebody is making it
};

// ---- errors and warnings ----

// Behind the error comes what the compiler said, from its first complaint on.
enum rocm_status hip_fail(const struct error * from, const struct buf * log,
                          struct rocm_error * to) {
    if (!to) {
        return (enum rocm_status) from->status;
    }
    to->status = (enum rocm_status) from->status;
    const char * said = log && log->data ? (const char *) log->data : "";
    const char * first = strstr(said, "error:");
    while (first && first > said && first[-1] != '\n') {
        first--;
    }
    if (!first) { // then the end says most
        size_t n = strlen(said);
        first = said + (n > MAX_SAID ? n - MAX_SAID : 0);
    }
    snprintf(to->text, sizeof to->text, "%s%s%s", from->text, *said ? ":\n" : "", first);
    plain_make(to->text, true); // others wrote it, and it may end up on a terminal
    size_t n = strlen(to->text);
    while (n && to->text[n - 1] == '\n') {
        to->text[--n] = '\0';
    }
    return to->status;
}

// Without the lock: a callback may call us.
static void warn(struct rocm_kernels * k, const struct error * why, const char * then) {
    if (k->warn) {
        char text[sizeof why->text + 80];
        snprintf(text, sizeof text, "%s; %s", why->text, then);
        k->warn(k->user, text);
    }
}

// ---- opening ----

static char * copy(const char * text, bool * failed) {
    char * out = text ? strdup(text) : NULL;
    *failed = *failed || (text && !out);
    return out;
}

// A NULL where there must be something is the caller's mistake, and an error like any other.
enum rocm_status hip_missing(const char * function, const char * argument,
                             struct rocm_error * err) {
    struct error why;
    error_set(&why, ST_INVALID, "%s: %s is NULL", function, argument);
    return hip_fail(&why, NULL, err);
}

enum rocm_status rocm_kernels_open(const struct rocm_options * options, struct rocm_kernels ** out,
                                   struct rocm_error * err) {
    if (!out) {
        return hip_missing(__func__, "out", err);
    }
    static const struct rocm_options none;
    const struct rocm_options * o = options ? options : &none;
    struct error why = {0};
    struct rocm_kernels * k = calloc(1, sizeof *k);
    bool failed = !k;
    *out = NULL;
    if (k) {
        k->arch_wanted = copy(o->arch, &failed);
        k->version_wanted = copy(o->version, &failed);
        k->compiler_wanted = copy(hip_compiler_choice(o->compiler), &failed);
        k->warn = o->warn;
        k->hsa_symbol = o->hsa_symbol;
        k->user = o->user;
        k->force = env_flag("CANDLE_ROCM_FORCE_RECOMPILE", false);
        k->read_only = env_flag("ROCM_KERNELS_CACHE_READ_ONLY", false);
        k->toolchain.root = -1;
        pthread_mutex_init(&k->lock, NULL);
        pthread_cond_init(&k->made, NULL);
    }
    if (failed) {
        rocm_kernels_close(k);
        error_set(&why, ST_NO_MEMORY, "no memory for the kernel manager");
        return hip_fail(&why, NULL, err);
    }
    *out = k;
    return ROCM_OK;
}

void rocm_kernels_close(struct rocm_kernels * k) {
    if (!k || hip_hsa_is_lost(k)) {
        return;
    }
    hip_hsa_free(k);
    while (k->codes) {
        struct hip_code * next = k->codes->next;
        free((void *) (uintptr_t) k->codes->code.data);
        free((void *) (uintptr_t) k->codes->code.path);
        free(k->codes);
        k->codes = next;
    }
    if (k->cache_usable) {
        hip_cache_close(&k->cache);
    }
    hip_toolchain_free(&k->toolchain);
    pthread_cond_destroy(&k->made);
    pthread_mutex_destroy(&k->lock);
    free(k->arch_wanted);
    free(k->version_wanted);
    free(k->compiler_wanted);
    free(k);
}

// ---- what must be known first; all with the lock held ----

// True: *why is worth a warning.
static bool open_place(struct rocm_kernels * k, struct error * why) {
    if (k->place_known) {
        return false;
    }
    enum status st = hip_cache_open(!k->read_only, &k->cache, why);
    k->place_known = true;
    k->cache_usable = st == ST_OK;
    k->toolchain.root = st == ST_OK && !k->read_only ? k->cache.root : -1;
    return st != ST_OK && k->cache.max != 0 && !k->read_only; // with 0 the user wants none
}

static enum status find_toolchain(struct rocm_kernels * k, struct error * err) {
    if (!k->toolchain_known) {
        enum status st = hip_toolchain_find(&k->toolchain, k->compiler_wanted, err);
        if (st != ST_OK) {
            return st;
        }
        k->toolchain_known = true;
    }
    return ST_OK;
}

static const char * env_text(const char * name) {
    const char * value = secure_getenv(name);
    return value && value[strspn(value, " \t\r\n")] ? value : NULL;
}

static bool ask_rocminfo(struct rocm_kernels * k, char arch[HIP_ARCH_MAX]) {
    struct process p = {.argv = (char *[]){(char[]){"rocminfo"}, NULL},
                        .time_limit_s = 30,
                        .capture = true,
                        .keep = 1 << 20};
    struct process_end end;
    char * path = process_find("rocminfo");
    free(path);
    k->counters.other_runs += path != NULL;
    bool ok = process_run(&p, &end, NULL) == ST_OK && end.known && !end.signal && !end.timed_out &&
              end.exit_status == 0 && end.output.data &&
              hip_arch_from_rocminfo((const char *) end.output.data, arch);
    buf_free(&end.output);
    return ok;
}

static enum status find_arch(struct rocm_kernels * k, struct error * err) {
    if (k->arch[0]) {
        return ST_OK;
    }
    static const char * const variables[] = {"CANDLE_ROCM_ARCH", "ROCM_GFX_ARCH"};
    if (k->arch_wanted) {
        return hip_arch_parse(k->arch_wanted, k->arch, err);
    }
    for (int i = 0; i < 2; i++) {
        const char * text = env_text(variables[i]);
        if (text) {
            enum status st = hip_arch_parse(text, k->arch, err);
            return st == ST_OK ? st : error_prefix(err, st, "%s", variables[i]);
        }
    }
    if (hip_hsa_arch(k, k->arch, NULL) == ST_OK || ask_rocminfo(k, k->arch)) {
        return ST_OK;
    }
    return error_set(
        err, ST_NOT_FOUND,
        "no GPU to compile for: neither the HSA runtime nor rocminfo tells of one; set "
        "CANDLE_ROCM_ARCH, e.g. to gfx90a (and CANDLE_ROCM_VERSION, e.g. to 6.0, where "
        "there is no compiler)");
}

static enum status find_version(struct rocm_kernels * k, struct error * err) {
    if (k->version[0]) {
        return ST_OK;
    }
    if (k->version_wanted) {
        return hip_version_parse(k->version_wanted, k->version, err);
    }
    const char * text = env_text("CANDLE_ROCM_VERSION");
    if (text) {
        enum status st = hip_version_parse(text, k->version, err);
        return st == ST_OK ? st : error_prefix(err, st, "CANDLE_ROCM_VERSION");
    }
    // Another compiler may be wanted, but hipcc is the one that knows.
    struct hip_toolchain own = {.root = k->toolchain.root}, *t = &k->toolchain;
    if (!t->hipcc && hip_toolchain_find(&own, "hipcc", NULL) == ST_OK) {
        t = &own;
    }
    uint64_t before = t->runs;
    hip_toolchain_ask(t);
    k->counters.other_runs += t->runs - before;
    memcpy(k->version, t->hipcc_version, sizeof k->version);
    hip_toolchain_free(&own);
    before = k->toolchain.runs;
    // Clang alone needs nothing of ROCm: what it makes goes by its own version.
    bool known = k->version[0] || hip_toolchain_clang(&k->toolchain, k->version);
    k->counters.other_runs += k->toolchain.runs - before;
    return known ? ST_OK
                 : error_set(
                       err, ST_NOT_FOUND,
                       "no ROCm version: neither hipcc nor clang tells one; set "
                       "CANDLE_ROCM_VERSION, e.g. to 6.0 (and CANDLE_ROCM_ARCH, e.g. to gfx90a, "
                       "where no GPU is found)");
}

// Everything, in the order in which one needs the other. Without any compiler there need not be a
// version: what is kept is used under whichever it is.
static enum status get_ready(struct rocm_kernels * k, bool want_arch, bool want_version,
                             struct error * err) {
    struct error why = {0};
    pthread_mutex_lock(&k->lock);
    bool tell = open_place(k, &why);
    enum status st = find_toolchain(k, err);
    if (st == ST_OK && want_arch) {
        st = find_arch(k, err);
    }
    if (st == ST_OK) {
        struct error none = {0};
        st = find_version(k, &none);
        bool compiler = k->toolchain.hipcc || k->toolchain.clang;
        if (st == ST_NOT_FOUND && !want_version && !compiler) {
            st = ST_OK;
        } else if (st != ST_OK && err) {
            *err = none;
        }
    }
    pthread_mutex_unlock(&k->lock);
    if (tell) {
        warn(k, &why, "code objects are kept in memory only");
    }
    return st;
}

const char * rocm_kernels_arch(struct rocm_kernels * k, struct rocm_error * err) {
    if (!k) {
        hip_missing(__func__, "k", err);
        return NULL;
    }
    struct error why = {0};
    pthread_mutex_lock(&k->lock);
    enum status st = find_arch(k, &why);
    pthread_mutex_unlock(&k->lock);
    return st == ST_OK ? k->arch : (hip_fail(&why, NULL, err), NULL);
}

const char * rocm_kernels_version(struct rocm_kernels * k, struct rocm_error * err) {
    if (!k) {
        hip_missing(__func__, "k", err);
        return NULL;
    }
    struct error why = {0};
    return get_ready(k, false, true, &why) == ST_OK ? k->version
                                                    : (hip_fail(&why, NULL, err), NULL);
}

const char * rocm_kernels_directory(struct rocm_kernels * k) {
    if (!k) {
        return NULL;
    }
    struct error why = {0};
    pthread_mutex_lock(&k->lock);
    bool tell = open_place(k, &why);
    pthread_mutex_unlock(&k->lock);
    if (tell) {
        warn(k, &why, "code objects are kept in memory only");
    }
    return k->cache_usable ? k->cache.path : NULL;
}

// ---- making one ----

struct making {
    struct rocm_kernels * k;
    struct hip_entry entry;
    const char * source;
    struct hip_compilers compilers;
    const struct hip_compiler * by; // of them, the one that made it
    struct hip_lock lock;
    struct buf log;
    uint8_t * data;
    size_t size;
    bool compiled, kept;
};

static void count(struct making * m, uint64_t * counter, uint64_t by) {
    pthread_mutex_lock(&m->k->lock);
    *counter += by;
    pthread_mutex_unlock(&m->k->lock);
}

static void warn_once(void * user, enum status st, struct error * why) {
    struct making * m = user;
    (void) st;
    pthread_mutex_lock(&m->k->lock);
    bool first = !m->k->publish_warned;
    m->k->publish_warned = true;
    pthread_mutex_unlock(&m->k->lock);
    if (first) {
        error_prefix(why, why->status, "kernel cache %.200s", m->k->cache.path);
        warn(m->k, why, "code objects are kept in memory only");
    }
}

static enum status compile(void * user, struct error * err) {
    struct making * m = user;
    if (!m->compilers.n) {
        *err = m->compilers.why;
        return error_prefix(err, err->status, "%s for %s", m->entry.name, m->entry.arch);
    }
    struct hip_job job = {m->entry.arch, m->entry.name, m->source};
    uint64_t runs = 0;
    enum status st =
        hip_compile(&m->compilers, &job, &m->by, &m->data, &m->size, &m->log, &runs, err);
    count(m, &m->k->counters.compiles, runs);
    m->compiled = st == ST_OK;
    return st;
}

// ---- the cache: what keep_get asks of an entry ----

static enum status load(void * user, struct error * err) {
    struct making * m = user;
    (void) err; // a miss is no error
    enum status st = m->k->force ? ST_NOT_FOUND
                                 : hip_cache_load(&m->k->cache, &m->entry, &m->compilers, &m->data,
                                                  &m->size, NULL);
    if (st == ST_OK) {
        m->kept = true;
        count(m, &m->k->counters.disk_hits, 1);
    }
    return st;
}

static enum status lock(void * user, struct error * err) {
    struct making * m = user;
    bool keeps = !m->k->read_only && m->compilers.n; // else there is nothing to wait for
    return keeps ? hip_cache_lock(&m->k->cache, &m->entry, &m->lock, err) : ST_BUSY;
}

static void unlock(void * user) {
    struct making * m = user;
    hip_cache_unlock(&m->lock);
}

static void put_aside(void * user) {
    struct making * m = user;
    count(m, &m->k->counters.damaged, 1);
    hip_cache_quarantine(&m->k->cache, &m->entry);
}

static enum status publish(void * user, struct error * err) {
    struct making * m = user;
    enum status st = hip_cache_publish(&m->k->cache, &m->entry, m->by, m->data, m->size, err);
    m->kept = st == ST_OK;
    return st;
}

static const struct keep_entry code_entry = {load,      lock,    unlock,   compile,
                                             put_aside, publish, warn_once};

static enum status make(struct making * m, struct error * err) {
    return m->k->cache_usable ? keep_get(&code_entry, m, err) : compile(m, err);
}

// ---- the table ----

static struct hip_code * find_code(struct rocm_kernels * k, const struct hip_entry * e) {
    for (struct hip_code * c = k->codes; c; c = c->next) {
        if (!memcmp(c->source, e->source, sizeof c->source) && !strcmp(c->name, e->name) &&
            !strcmp(c->arch, e->arch)) {
            return c;
        }
    }
    return NULL;
}

// *mine: the caller makes it. With the lock held, which waiting lets go.
static enum status reserve(struct rocm_kernels * k, const struct hip_entry * e,
                           struct hip_code ** out, bool * mine, struct error * err) {
    struct hip_code * c;
    while ((c = find_code(k, e)) && !c->ready) {
        pthread_cond_wait(&k->made, &k->lock);
    }
    *mine = !c;
    if (!c) {
        c = k->n_codes < MAX_CODES ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            return error_set(err, ST_NO_MEMORY, "no memory for a code object, or more than %d",
                             MAX_CODES);
        }
        memcpy(c->source, e->source, sizeof c->source);
        snprintf(c->name, sizeof c->name, "%s", e->name);
        snprintf(c->arch, sizeof c->arch, "%s", e->arch);
        c->next = k->codes;
        k->codes = c;
        k->n_codes++;
    } else {
        k->counters.memory_hits++;
    }
    *out = c;
    return ST_OK;
}

static void drop(struct rocm_kernels * k, struct hip_code * c) {
    struct hip_code ** at = &k->codes;
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    k->n_codes--;
    free(c);
}

static enum status fill(struct rocm_kernels * k, struct hip_code * c, struct making * m,
                        struct error * err) {
    struct buf path = {0};
    hip_compilers_free(&m->compilers);
    pthread_mutex_lock(&k->lock);
    uint64_t before = k->toolchain.runs;
    hip_toolchain_compilers(&k->toolchain, m->entry.arch, &m->compilers);
    k->counters.other_runs += k->toolchain.runs - before;
    pthread_mutex_unlock(&k->lock);
    enum status st = m->compilers.why.status == ST_NO_MEMORY
                         ? error_set(err, ST_NO_MEMORY, "%s", m->compilers.why.text)
                         : make(m, err);
    if (st == ST_OK && m->kept) {
        hip_entry_path(&k->cache, &m->entry, &path);
    }
    pthread_mutex_lock(&k->lock);
    if (st == ST_OK) {
        c->code = (struct rocm_code){m->data, m->size, path.failed ? NULL : (char *) path.data,
                                     m->compiled};
        c->ready = true;
    } else {
        drop(k, c); // who waited tries it for himself: his compiler may do better
    }
    pthread_cond_broadcast(&k->made);
    pthread_mutex_unlock(&k->lock);
    hip_compilers_free(&m->compilers);
    return st;
}

static enum status get(struct rocm_kernels * k, const char * arch, const char * name,
                       const char * source, const struct rocm_code ** out, struct buf * log,
                       struct error * err) {
    char parsed[HIP_ARCH_MAX];
    enum status st = hip_name_check(name, err);
    size_t size = st == ST_OK ? strlen(source) : 0;
    if (st == ST_OK && (size == 0 || size > HIP_MAX_SOURCE)) {
        st = error_set(err, ST_INVALID, "%s: a source of %zu bytes; at most %zu are accepted", name,
                       size, HIP_MAX_SOURCE);
    }
    if (st == ST_OK && arch) {
        st = hip_arch_parse(arch, parsed, err);
    }
    if (st == ST_OK) {
        st = get_ready(k, !arch, false, err);
    }
    if (st != ST_OK) {
        return st;
    }
    char version[HIP_VERSION_MAX];
    struct making m = {.k = k, .source = source};
    struct hip_code * c = NULL;
    bool mine = false;
    pthread_mutex_lock(&k->lock); // another thread may be looking for them once more
    snprintf(version, sizeof version, "%s", k->version);
    if (!arch) {
        snprintf(parsed, sizeof parsed, "%s", k->arch);
    }
    pthread_mutex_unlock(&k->lock);
    m.entry = (struct hip_entry){.arch = parsed, .version = version, .name = name};
    sha256(source, size, m.entry.source);
    if (!version[0] &&
        (!k->cache_usable || !hip_cache_find_version(&k->cache, &m.entry, version))) {
        snprintf(version, sizeof version, "0"); // nothing says, and nothing is kept
    }
    pthread_mutex_lock(&k->lock);
    st = reserve(k, &m.entry, &c, &mine, err);
    pthread_mutex_unlock(&k->lock);
    if (st == ST_OK && mine) {
        st = fill(k, c, &m, err);
        *log = m.log;
    }
    if (st == ST_OK) {
        *out = &c->code;
    }
    return st;
}

enum rocm_status rocm_kernels_get_or_compile_for(struct rocm_kernels * k, const char * arch,
                                                 const char * name, const char * source,
                                                 const struct rocm_code ** out,
                                                 struct rocm_error * err) {
    struct error why = {0};
    struct buf log = {0};
    if (!k || !name || !source || !out) {
        return hip_missing(__func__, !k ? "k" : !name ? "name" : !source ? "source" : "out", err);
    }
    *out = NULL;
    why.status = get(k, arch, name, source, out, &log, &why);
    enum rocm_status st = why.status == ST_OK ? ROCM_OK : hip_fail(&why, &log, err);
    buf_free(&log);
    return st;
}

enum rocm_status rocm_kernels_get_or_compile(struct rocm_kernels * k, const char * name,
                                             const char * source, const struct rocm_code ** out,
                                             struct rocm_error * err) {
    return rocm_kernels_get_or_compile_for(k, NULL, name, source, out, err);
}

void rocm_kernels_counters(struct rocm_kernels * k, struct rocm_counters * out) {
    if (!k || !out) {
        return;
    }
    pthread_mutex_lock(&k->lock);
    *out = k->counters;
    pthread_mutex_unlock(&k->lock);
}
