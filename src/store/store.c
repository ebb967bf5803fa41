// store: finds a kernel in memory, else builds it from the sources in their order. One lock guards
// everything in memory and is never held while a file is read or a kernel compiled; whoever asks
// for a kernel (or needs a PDI) that another thread is building waits for that thread.
// memory.c says what is held in memory, and for how long.
#include "store-impl.h"

#include "aie/aie.h"
#include "aie/target/times.h"
#include "aie/verify/verify.h"
#include "cache.h"
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

// ---- warnings ----

static void warn(struct store * s, const char * text) {
    pthread_mutex_lock(&s->lock);
    void (*say)(const char *) = s->warn;
    if (!say && !s->unsaid && (s->unsaid = malloc(sizeof *s->unsaid))) {
        error_set(s->unsaid, ST_OK, "%s", text);
    }
    pthread_mutex_unlock(&s->lock);
    if (say) {
        say(text);
    }
}

void store_set_log(struct store * s, void (*say)(const char * text)) {
    pthread_mutex_lock(&s->lock);
    struct error * unsaid = s->unsaid;
    s->unsaid = NULL;
    s->warn = say;
    pthread_mutex_unlock(&s->lock);
    if (unsaid && say) {
        say(unsaid->text);
    }
    free(unsaid);
}

// Without a cache all works as well, only slower the next time.
static void warn_cache(struct store * s, struct error * why) {
    struct error text;
    error_set(&text, why->status, "%.380s; kernels are kept in memory only", why->text);
    warn(s, text.text);
}

// ---- life ----

// The older name is the more generous: whatever it is set to, unless that says no.
static bool asks_to_clear(void) {
    static const char * const no[] = {"", "0", "false", "off", "no"};
    const char * value = getenv("GGML_HSA_JIT_CLEAR_CACHE");
    bool yes = value != NULL;
    for (size_t i = 0; yes && i < sizeof no / sizeof no[0]; i++) {
        yes = strcasecmp(value, no[i]) != 0;
    }
    return yes;
}

static void open_cache(struct store * s) {
    struct error why = {0};
    struct cache_totals totals;
    if (!store_has_compiler(s) || (!s->compiler->identity && !s->external[0])) {
        return; // what a pack's programs are driven by is made faster than read
    }
    enum status st = cache_open(true, &s->cache, &why);
    if (st != ST_OK && st != ST_NOT_FOUND) {
        warn_cache(s, &why);
    }
    if (s->cache && (env_flag("GGML_HSA_KERNEL_CACHE_CLEAR", false) || asks_to_clear())) {
        cache_clear(s->cache, &totals, NULL);
    }
}

// As much as the device heap holds, and more than a model's worth: a shape takes about 10 KB.
#define DEFAULT_MEMORY ((uint64_t) 64 << 20)

static void open_memory(struct store * s) {
    struct error why = {0}, text;
    if (keep_size("GGML_HSA_KERNEL_MEMORY", DEFAULT_MEMORY, &s->most, &why) != ST_OK) {
        error_set(&text, why.status, "%.380s; it is 64M", why.text);
        warn(s, text.text);
    }
}

enum status store_new_with(const struct store_compiler * compiler, struct store ** out,
                           struct error * err) {
    struct store * s = calloc(1, sizeof *s);
    if (!s) {
        return error_set(err, ST_NO_MEMORY, "no memory for a kernel store");
    }
    enum status st = packs_open(secure_getenv("GGML_HSA_KERNEL_DIR"), &s->packs, err);
    if (st != ST_OK) {
        free(s);
        return st;
    }
    s->compiler = compiler;
    s->verbose = env_flag("GGML_HSA_JIT_VERBOSE", false);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->built, NULL);
    open_memory(s);
    struct error why = {0};
    if (record_open(&s->record, &why) != ST_OK) {
        warn(s, why.text);
    }
    if (!external_identity(s->external)) {
        s->external[0] = '\0';
    }
    open_cache(s);
    *out = s;
    return ST_OK;
}

void store_free(struct store * s) {
    if (!s) {
        return;
    }
    memory_free(s);
    packs_close(&s->packs);
    record_close(s->record);
    cache_close(s->cache);
    free(s->unsaid);
    pthread_cond_destroy(&s->built);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void store_get_stats(struct store * s, struct store_stats * out) {
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

// ---- programs ----

// From a pack of the same compiler, or made.
static enum status build_program(struct store * s, const struct aie_plan * plan,
                                 struct pdi_node ** out, bool * from_pack, struct error * err) {
    uint8_t * data;
    size_t size;
    const struct store_compiler * c = s->compiler;
    const struct kernel_spec * spec = &plan->spec;
    char name[KERNEL_NAME_MAX];
    aie_pdi_name(plan->program, spec->columns, name);
    enum status st = c->identity
                         ? packs_load_program(&s->packs, spec, name, c->identity, &data, &size, err)
                         : error_set(err, ST_NOT_FOUND, "its compiler has no name");
    *from_pack = st == ST_OK;
    if (st != ST_OK && c->pdi) {
        st = c->pdi(plan->program, spec->arch, spec->columns, &data, &size, err);
    }
    if (st == ST_OK && !(*out = memory_intern_pdi(s, data, size, false))) {
        st = error_set(err, ST_NO_MEMORY, "no memory for program %s", name);
    }
    return st;
}

static struct program program_of(const struct aie_plan * plan) {
    return (struct program){
        .of = plan->program, .arch = plan->spec.arch, .columns = plan->spec.columns};
}

// A use of the PDI that the kernel runs on, brought by the first thread that needs it. What packs
// do not have they will not have: that is remembered.
static enum status get_program(struct store * s, const struct aie_plan * plan,
                               struct pdi_node ** out, bool * from_pack, struct error * err) {
    pthread_mutex_lock(&s->lock);
    struct program * p;
    while ((p = memory_find_program(s, plan)) && p->building) {
        pthread_cond_wait(&s->built, &s->lock);
    }
    if (!p && (p = calloc(1, sizeof *p))) {
        *p = program_of(plan);
        p->next = s->programs;
        s->programs = p;
    }
    enum status st = ST_OK;
    bool build = p && !p->pdi && !p->absent;
    if (build) {
        p->building = true; // and so it is nobody's to drop
    } else if (!p) {
        st = error_set(err, ST_NO_MEMORY, "no memory for program %s", plan->program->name);
    } else if (p->pdi) {
        p->pdi->uses++;
        *out = p->pdi;
        *from_pack = p->from_pack;
    } else {
        st = error_set(err, p->absent->status, "%s", p->absent->text);
    }
    pthread_mutex_unlock(&s->lock);
    if (!build) {
        return st;
    }
    struct pdi_node * pdi = NULL;
    struct error why = {0};
    *from_pack = false;
    st = build_program(s, plan, &pdi, from_pack, &why);
    struct error * absent = st != ST_OK && !s->compiler->pdi ? malloc(sizeof *absent) : NULL;
    if (absent) {
        *absent = why;
    }
    pthread_mutex_lock(&s->lock);
    p->pdi = pdi;
    p->from_pack = *from_pack;
    p->absent = absent;
    p->building = false;
    pthread_cond_broadcast(&s->built);
    pthread_mutex_unlock(&s->lock);
    *out = pdi;
    return st == ST_OK ? ST_OK : error_set(err, st, "%s", why.text);
}

// ---- sources: each gives a use of a PDI and an owned stream ----

struct found {
    struct pdi_node * pdi;
    uint32_t * insts;
    size_t n_insts;
};

// The one plan that is made of a kernel.
static enum status plan_it(const struct store * s, struct asked * asked, struct error * err) {
    if (!asked->planned) {
        enum status st = s->compiler->plan(&asked->plan.spec, &asked->plan, err);
        if (st != ST_OK) {
            return st;
        }
        asked->planned = true;
    }
    return ST_OK;
}

// Whether a pack's stream is what our compiler makes, to the byte: then it is one of ours.
static bool is_own_stream(const struct store * s, struct asked * asked,
                          const struct kernel_code * code) {
    uint32_t * insts = NULL;
    size_t n = 0;
    bool own = s->compiler && s->compiler->stream && plan_it(s, asked, NULL) == ST_OK &&
               s->compiler->stream(&asked->plan, &insts, &n, NULL) == ST_OK && n == code->n_insts &&
               !memcmp(insts, code->insts, 4 * n);
    free(insts);
    return own;
}

static struct found found_code(struct store * s, const struct kernel_code * code, bool foreign) {
    return (struct found){memory_intern_pdi(s, code->pdi, code->pdi_size, foreign), code->insts,
                          code->n_insts};
}

static enum status from_packs(struct store * s, struct asked * asked, struct found * out,
                              struct error * err) {
    struct kernel_code code = {0};
    enum status st = packs_load(&s->packs, &asked->plan.spec, &code, err);
    if (st != ST_OK) {
        return st;
    }
    *out = found_code(s, &code, !is_own_stream(s, asked, &code));
    if (!out->pdi) {
        free(code.insts);
        return error_set(err, ST_NO_MEMORY, "no memory for its PDI");
    }
    pthread_mutex_lock(&s->lock);
    s->stats.pack_hits++;
    pthread_mutex_unlock(&s->lock);
    return ST_OK;
}

// The maker of a kernel: our compiler, on a program of its own or of a pack, or the command for
// what ours cannot do.
enum maker { MAKER_NONE, MAKER_OWN, MAKER_COMMAND };

bool store_has_compiler(const struct store * s) {
    return s->compiler && s->compiler->pdi;
}

static enum maker maker_of(struct store * s, struct asked * asked, struct error * err) {
    struct pdi_node * pdi;
    bool from_pack;
    if (!s->compiler) {
        error_set(err, ST_NOT_FOUND,
                  "this build has no kernel compiler (GGML_HSA_JIT_COMPILE); put the kernel into "
                  "a directory of GGML_HSA_KERNEL_DIR");
        return MAKER_NONE;
    }
    if (plan_it(s, asked, err) == ST_OK) {
        if (s->compiler->pdi) {
            return MAKER_OWN;
        }
        if (get_program(s, &asked->plan, &pdi, &from_pack, err) == ST_OK) {
            memory_release_pdi(s, pdi);
            return MAKER_OWN;
        }
        pthread_mutex_lock(&s->lock);
        s->stats.absent++;
        pthread_mutex_unlock(&s->lock);
    }
    return store_has_command(s) && external_supports(&asked->plan.spec) ? MAKER_COMMAND
                                                                        : MAKER_NONE;
}

static enum status make_own(struct store * s, const struct aie_plan * plan, struct found * out,
                            bool * on_pack, struct error * err) {
    struct pdi_node * pdi;
    enum status st = get_program(s, plan, &pdi, on_pack, err);
    if (st != ST_OK) {
        return st;
    }
    st = s->compiler->stream(plan, &out->insts, &out->n_insts, err);
    if (st == ST_OK) {
        out->pdi = pdi;
    } else {
        memory_release_pdi(s, pdi);
    }
    return st;
}

static enum status make_by_command(struct store * s, const struct kernel_spec * spec,
                                   struct found * out, struct error * err) {
    struct kernel_code code;
    enum status st = external_compile(spec, &code, err);
    if (st != ST_OK) { // what it got wrong once it will get wrong again: it is not asked any more
        return st == ST_CORRUPT ? ST_UNSUPPORTED : st;
    }
    *out = found_code(s, &code, true);
    if (!out->pdi) {
        free(code.insts);
        return error_set(err, ST_NO_MEMORY, "no memory for its PDI");
    }
    return ST_OK;
}

static void tell_made(struct store * s, const struct aie_plan * plan, enum maker maker,
                      const struct found * found, bool on_pack, uint64_t ns) {
    struct error text;
    const struct kernel_spec * spec = &plan->spec;
    char name[KERNEL_NAME_MAX], program[KERNEL_NAME_MAX] = "GGML_HSA_JIT_COMMAND";
    kernel_name(spec, name);
    if (maker == MAKER_OWN) {
        aie_pdi_name(plan->program, spec->columns, program);
    }
    error_set(&text, ST_OK, "%s %s/%s in %.2f ms: %s %.60s, %zu bytes, stream of %zu bytes",
              on_pack ? "made the stream of" : "compiled", kernel_arch_name(spec->arch), name,
              (double) ns * 1e-6, maker == MAKER_OWN ? "program" : "by", program,
              found->pdi->pdi.size, found->n_insts * sizeof *found->insts);
    warn(s, text.text);
}

static enum status store_make_kernel(struct store * s, const struct aie_plan * plan,
                                     enum maker maker, struct found * out, struct error * err) {
    uint64_t start = now_ns();
    bool on_pack = false;
    enum status st = maker == MAKER_OWN ? make_own(s, plan, out, &on_pack, err)
                                        : make_by_command(s, &plan->spec, out, err);
    if (st != ST_OK) {
        return st;
    }
    uint64_t spent = now_ns() - start;
    if (s->verbose) {
        tell_made(s, plan, maker, out, on_pack, spent);
    }
    pthread_mutex_lock(&s->lock);
    if (on_pack) {
        s->stats.streams++;
    } else {
        s->stats.compiles++;
        s->stats.compile_ns += spent;
    }
    pthread_mutex_unlock(&s->lock);
    return ST_OK;
}

// ---- the cache: what keep_get asks of an entry ----

struct have { // what a kernel in the cache runs on, where it is in memory already
    struct store * store;
    bool foreign;
    struct pdi_node * pdi; // a use of it
};

static bool have_pdi(void * user, const uint8_t digest[SHA256_BYTES]) {
    struct have * have = user;
    memory_release_pdi(have->store, have->pdi);
    pthread_mutex_lock(&have->store->lock);
    have->pdi = memory_find_pdi(have->store, digest, have->foreign);
    if (have->pdi) {
        have->pdi->uses++;
    }
    pthread_mutex_unlock(&have->store->lock);
    return have->pdi != NULL;
}

// Shapes of the same program that are compiled later need not make it again.
static void note_program(struct store * s, const struct aie_plan * plan, struct pdi_node * pdi) {
    struct program * fresh = calloc(1, sizeof *fresh);
    pthread_mutex_lock(&s->lock);
    if (fresh && !memory_find_program(s, plan)) {
        *fresh = program_of(plan);
        fresh->next = s->programs;
        fresh->pdi = pdi;
        s->programs = fresh;
        fresh = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    free(fresh);
}

// A kernel of the command was verified before it was kept; where the verdict is not about these
// very bytes and operands, or of an older verifier, it is looked at again.
static enum status check_verdict(const struct kernel_spec * spec, const struct cache_kernel * k,
                                 const struct store_pdi * pdi, struct error * err) {
    uint8_t verdict[SHA256_BYTES];
    aie_verify_digest(spec, k->pdi_digest, k->insts_digest, verdict);
    return memcmp(verdict, k->verdict, sizeof verdict)
               ? aie_verify_files(spec, pdi->data, pdi->size, (const uint8_t *) k->insts,
                                  k->n_insts * 4, err)
               : ST_OK;
}

struct getting { // a kernel of the cache, and what comes of it
    struct store * store;
    const struct aie_plan * plan;
    enum maker maker;
    struct found * out;
    struct cache_lock lock;
};

static const char * identity_of(const struct getting * g) {
    return g->maker == MAKER_OWN ? g->store->compiler->identity : g->store->external;
}

static enum status load_kernel(void * user, struct error * err) {
    const struct getting * g = user;
    struct store * s = g->store;
    const struct kernel_spec * spec = &g->plan->spec;
    struct found * out = g->out;
    struct cache_kernel k;
    struct have have = {.store = s, .foreign = g->maker == MAKER_COMMAND};
    enum status st = cache_load(s->cache, spec, identity_of(g), have_pdi, &have, &k, err);
    if (st != ST_OK) {
        memory_release_pdi(s, have.pdi);
        return st;
    }
    *out = (struct found){k.pdi ? memory_intern_pdi(s, k.pdi, k.pdi_size, have.foreign) : have.pdi,
                          k.insts, k.n_insts};
    if (!out->pdi) {
        free(k.insts);
        return error_set(err, ST_NO_MEMORY, "no memory for its PDI");
    }
    if (g->maker == MAKER_OWN) { // proven by tests
        note_program(s, g->plan, out->pdi);
    } else if ((st = check_verdict(spec, &k, &out->pdi->pdi, err)) != ST_OK) {
        memory_release_pdi(s, out->pdi);
        free(k.insts);
        *out = (struct found){0};
        return st;
    }
    pthread_mutex_lock(&s->lock);
    s->stats.cache_hits++;
    pthread_mutex_unlock(&s->lock);
    return ST_OK;
}

static enum status lock_kernel(void * user, struct error * err) {
    struct getting * g = user;
    return cache_lock(g->store->cache, &g->plan->spec, &g->lock, err);
}

static void unlock_kernel(void * user) {
    struct getting * g = user;
    cache_unlock(&g->lock);
}

static enum status make_kernel(void * user, struct error * err) {
    const struct getting * g = user;
    return store_make_kernel(g->store, g->plan, g->maker, g->out, err);
}

static void put_aside(void * user) {
    const struct getting * g = user;
    cache_quarantine(g->store->cache, &g->plan->spec, identity_of(g));
    pthread_mutex_lock(&g->store->lock);
    g->store->stats.cache_damaged++;
    pthread_mutex_unlock(&g->store->lock);
}

static enum status publish(void * user, struct error * err) {
    const struct getting * g = user;
    const struct pdi_node * p = g->out->pdi;
    struct kernel_code code = {p->data, p->pdi.size, g->out->insts, g->out->n_insts};
    enum status st = cache_publish(g->store->cache, &g->plan->spec, identity_of(g), &code,
                                   p->digest, g->maker == MAKER_COMMAND, err);
    pthread_mutex_lock(&g->store->lock);
    g->store->stats.cache_publishes += st == ST_OK;
    pthread_mutex_unlock(&g->store->lock);
    return st;
}

// A kernel that cannot be kept is said once, and then only counted.
static void unkept(void * user, enum status st, struct error * why) {
    struct store * s = ((const struct getting *) user)->store;
    pthread_mutex_lock(&s->lock);
    s->stats.cache_failures++;
    bool say = !s->publish_warned;
    s->publish_warned = true;
    pthread_mutex_unlock(&s->lock);
    if (say) {
        error_prefix(why, st, "kernel cache %.200s", cache_path(s->cache));
        warn_cache(s, why);
    }
}

static const struct keep_entry kernel_entry = {load_kernel, lock_kernel, unlock_kernel, make_kernel,
                                               put_aside,   publish,     unkept};

static enum status from_cache_or_compiler(struct store * s, struct asked * asked,
                                          struct found * out, struct error * err) {
    struct error why = {0};
    struct getting g = {.store = s, .plan = &asked->plan, .out = out};
    g.maker = maker_of(s, asked, &why);
    if (g.maker == MAKER_NONE) {
        return error_set(err, why.status, "%s", why.text);
    }
    return s->cache && identity_of(&g) ? keep_get(&kernel_entry, &g, err) : make_kernel(&g, err);
}

// A broken pack must not keep a kernel from being compiled, but when that fails too, the pack's
// reason is the one to mend.
static enum status build(struct store * s, struct asked * asked, bool may_compile,
                         struct found * out, struct error * err) {
    const struct kernel_spec * spec = &asked->plan.spec;
    struct error pack_error = {0}, error = {0};
    enum status st = from_packs(s, asked, out, &pack_error);
    if (st != ST_OK && may_compile) {
        enum status pack_status = st;
        st = from_cache_or_compiler(s, asked, out, &error);
        if (st != ST_OK && pack_status != ST_NOT_FOUND) {
            st = pack_status;
            error = pack_error;
        } else if (pack_status != ST_NOT_FOUND) {
            error_prefix(&pack_error, pack_status, "kernel pack");
            warn(s, pack_error.text);
        }
    } else {
        error = pack_error;
    }
    if (st != ST_OK) {
        char name[KERNEL_NAME_MAX];
        kernel_name(spec, name);
        error_set(err, st, "kernel %s/%s: %s", kernel_arch_name(spec->arch), name, error.text);
    }
    return st;
}

// ---- getting ----

static uint64_t us_of(const struct asked * asked) {
    const struct kernel_spec * spec = &asked->plan.spec;
    return aie_us(spec->arch, asked->planned ? asked->plan.cycles : aie_cycles(spec));
}

static enum store_decoder decoder_of(const struct asked * asked, bool foreign) {
    if (foreign || !asked->planned || !aie_program_is_mixed(asked->plan.program)) {
        return STORE_NO_DECODER;
    }
    enum kernel_family family = kernel_op_info(asked->plan.spec.op)->family;
    return family == KERNEL_PRODUCT || family == KERNEL_CONVERSION ? STORE_THIS_DECODER
                                                                   : STORE_ANY_DECODER;
}

// Called with the lock held for an entry in state BUILDING that is ours, and pinned; returns with
// the lock held.
static enum status build_entry(struct store * s, struct entry * e, bool may_compile,
                               struct error * err) {
    struct found found = {0};
    struct error error = {0};
    pthread_mutex_unlock(&s->lock);
    enum status st = build(s, e->asked, may_compile, &found, &error);
    pthread_mutex_lock(&s->lock);
    s->stats.bytes -= e->bytes;
    e->bytes = sizeof *e + sizeof *e->asked;
    if (st == ST_OK) {
        e->insts = found.insts;
        e->kernel = (struct store_kernel){.pdi = &found.pdi->pdi,
                                          .insts = found.insts,
                                          .n_insts = found.n_insts,
                                          .us = us_of(e->asked),
                                          .foreign = found.pdi->foreign,
                                          .decoder = decoder_of(e->asked, found.pdi->foreign)};
        e->state = ENTRY_READY;
        e->bytes += found.n_insts * sizeof *found.insts;
        free(e->error);
        e->error = NULL;
    } else {
        if (!e->error) {
            e->error = malloc(sizeof *e->error);
        }
        if (e->error) {
            *e->error = error;
            e->bytes += sizeof *e->error;
        }
        e->state = ENTRY_FAILED;
        error_set(err, st, "%s", error.text);
    }
    s->stats.bytes += e->bytes;
    pthread_cond_broadcast(&s->built);
    return st;
}

void store_set_columns(struct store * s, int columns) {
    s->columns = columns;
    s->last.is_set = false; // which was of other columns
}

// The one spec of all that mean the same kernel on this device.
static struct kernel_spec spec_here(const struct store * s, const struct kernel_spec * asked) {
    struct kernel_spec spec = spec_canonical(asked);
    spec.columns = spec.columns ? spec.columns : s->columns;
    return spec;
}

static bool is_spec(const struct kernel_spec * spec) {
    return spec->n_inputs >= 0 && spec->n_inputs <= KERNEL_MAX_INPUTS &&
           (unsigned) spec->arch < AIE_ARCH_COUNT && (unsigned) spec->op < KERNEL_OP_COUNT;
}

// The same with its hash, to be given back by value: another thread may ask for something else.
static struct request request_of(struct store * s, const struct kernel_spec * asked) {
    pthread_mutex_lock(&s->lock);
    struct request * last = &s->last;
    if (!last->is_set || !spec_equal(&last->asked, asked)) {
        last->is_set = true;
        last->asked = *asked;
        last->here = spec_here(s, asked);
        last->hash = spec_hash(&last->here);
    }
    struct request request = *last;
    pthread_mutex_unlock(&s->lock);
    return request;
}

static struct kernel_spec on_columns(const struct store * s, const struct kernel_spec * spec) {
    struct kernel_spec here = *spec;
    here.columns = here.columns ? here.columns : s->columns;
    return here;
}

uint64_t store_us(const struct store * s, const struct kernel_spec * spec) {
    struct kernel_spec here = on_columns(s, spec);
    return aie_us(here.arch, aie_cycles(&here));
}

uint64_t store_likely(const struct store * s, const struct kernel_spec * spec,
                      const struct aie_program ** program) {
    struct kernel_spec here = on_columns(s, spec);
    struct aie_plan plan;
    *program = aie_plan(&here, &plan, NULL) == ST_OK ? plan.program : NULL;
    return aie_likely(&here);
}

static enum status store_get_kernel(struct store * s, const struct kernel_spec * canonical,
                                    uint64_t hash, bool may_compile, struct store_kernel ** out,
                                    struct error * err) {
    enum status st = ST_OK;
    pthread_mutex_lock(&s->lock);
    struct entry * e = table_find(&s->kernels, canonical, hash);
    bool waited = e && e->state == ENTRY_BUILDING;
    if (e) {
        memory_pin(s, e);
    } else if ((e = table_add(&s->kernels, canonical, hash))) {
        e->pins = 1;
    }
    while (waited && e->state == ENTRY_BUILDING) {
        pthread_cond_wait(&s->built, &s->lock);
    }
    if (e && e->state == ENTRY_READY) {
        s->stats.memory_hits++;
    } else if (e && waited) {
        // A kernel that failed a moment ago for the thread that we waited for has failed for us.
        st = e->error ? error_set(err, e->error->status, "%s", e->error->text)
                      : error_set(err, ST_NO_MEMORY, "no memory to build a kernel");
    } else if (e) {
        e->state = ENTRY_BUILDING;
        st = build_entry(s, e, may_compile, err);
    } else {
        st = error_set(err, ST_NO_MEMORY, "no memory for one more kernel");
    }
    if (st == ST_OK) {
        *out = &e->kernel;
        memory_make_room(s);
    } else if (e) {
        memory_unpin(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

enum status store_get(struct store * s, const struct kernel_spec * spec, struct store_kernel ** out,
                      struct error * err) {
    if (!is_spec(spec)) {
        return error_set(err, ST_INVALID, "kernel spec with op %d, arch %d, %d inputs",
                         (int) spec->op, (int) spec->arch, spec->n_inputs);
    }
    struct request request = request_of(s, spec);
    enum status st = store_get_kernel(s, &request.here, request.hash, true, out, err);
    if (st != ST_INVALID &&
        st != ST_UNSUPPORTED) { // one that is only missing is wanted all the more
        struct error why;
        if (record_add(s->record, spec, &why) != ST_OK) {
            warn(s, why.text);
        }
    }
    return st;
}

bool store_has_command(const struct store * s) {
    return store_has_compiler(s) && s->external[0];
}

void store_check_packs(struct store * s, enum aie_arch arch) {
    struct error why;
    for (int i = 0; i < s->packs.n_packs; i++) {
        if (packs_complain(&s->packs, i, arch, &why)) {
            warn(s, why.text);
        }
    }
    if (!store_has_compiler(s) && s->packs.n_packs == 0) {
        warn(s, "there is no kernel compiler (GGML_HSA_JIT=0, or a build with "
                "GGML_HSA_JIT_COMPILE=OFF), and "
                "GGML_HSA_KERNEL_DIR names no kernel pack: every op that needs a kernel is left to "
                "the CPU");
    }
}

// A kernel that was asked about is mostly wanted next, so that its plan is kept. It takes no
// kernel's place in memory.
static void keep_plan(struct store * s, const struct asked * asked, uint64_t hash) {
    struct entry * e = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->stats.bytes + sizeof *e + sizeof *asked <= s->most &&
        !table_find(&s->kernels, &asked->plan.spec, hash)) {
        e = table_add(&s->kernels, &asked->plan.spec, hash);
    }
    if (e) {
        *e->asked = *asked;
        e->bytes = sizeof *e + sizeof *asked;
        s->stats.bytes += e->bytes;
        memory_add(s, e);
    }
    pthread_mutex_unlock(&s->lock);
}

static bool can(struct store * s, const struct kernel_spec * spec_asked, enum maker best) {
    if (!is_spec(spec_asked)) {
        return false;
    }
    struct request request = request_of(s, spec_asked);
    struct asked asked;
    pthread_mutex_lock(&s->lock);
    const struct entry * e = table_find(&s->kernels, &request.here, request.hash);
    bool planned = e && e->state == ENTRY_PLANNED;
    bool ready = e && (e->state == ENTRY_READY || (planned && store_has_compiler(s)));
    // A kernel that the compiler refused, after promising it, it will refuse again.
    bool refused = e && e->state == ENTRY_FAILED && e->error && e->error->status == ST_UNSUPPORTED;
    if (planned && !ready) {
        asked = *e->asked;
    }
    pthread_mutex_unlock(&s->lock);
    if (ready) {
        return true;
    }
    if (!planned) {
        asked.plan.spec = request.here;
        asked.planned = false;
    }
    enum maker maker = refused ? MAKER_NONE : maker_of(s, &asked, NULL);
    if (maker == MAKER_OWN) {
        keep_plan(s, &asked, request.hash);
    }
    if (maker == MAKER_OWN || maker == best) {
        return true;
    }
    struct store_kernel * kernel;
    bool have = packs_have(&s->packs, &request.here) &&
                store_get_kernel(s, &request.here, request.hash, false, &kernel, NULL) == ST_OK;
    if (have) {
        store_put(s, kernel);
    }
    return have;
}

bool store_can(struct store * s, const struct kernel_spec * spec) {
    return can(s, spec, MAKER_COMMAND);
}

bool store_can_itself(struct store * s, const struct kernel_spec * spec) {
    return can(s, spec, MAKER_OWN);
}

bool store_panel(const struct store * s, const struct kernel_spec * product,
                 struct kernel_panel * out) {
    struct kernel_spec spec = spec_here(s, product);
    return aie_panel(&spec, out);
}

bool store_reads_by(const struct store * s, const struct kernel_spec * product, int64_t rows) {
    struct kernel_spec spec = spec_here(s, product);
    return aie_reads_by(&spec, rows);
}

void store_why_not(struct store * s, const struct kernel_spec * asked, struct error * err) {
    struct asked it = {.plan.spec = spec_here(s, asked)};
    struct error why = {0};
    maker_of(s, &it, &why);
    error_set(err, why.status, "%s", why.text[0] ? why.text : "it was refused before");
}
