// shared: what all processes of one played device have in common: contexts with their ids, whose
// turn it is, whose state the array holds, and when it last had work. It is a file that all of them
// map, named by ACCEL_EMU_SHARED; without that, memory that a process shares with its children.
//
// Kept true: a process may die at any place. Both locks are robust ones; what a dead process left
// in the table goes when somebody looks at it, and a turn that it did not end leaves an array that
// is nobody's.
#include "accel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x32306c6563636131) // of this layout

enum { MAX_CONTEXTS = 1024, COLUMNS = 8 };

struct entry {
    int32_t pid; // 0: free
    uint32_t id;
    uint64_t started; // of the process, for pids come again
    uint64_t key;     // of the context, never the same twice
    uint32_t first_column, columns;
    uint64_t submitted, ended, errors;
    bool waits; // for its turn
};

struct accel_shared {
    uint64_t magic;
    char boot[40], device[16], kernel[16];
    pthread_mutex_t lock, turn;
    uint64_t keys, turns;
    int32_t used; // entries that were ever taken
    uint32_t last_id;
    uint32_t power_mode;
    uint64_t owner[COLUMNS]; // key of the context whose state is there; 0: nobody's
    uint64_t last_ns;        // CLOCK_MONOTONIC, when the array last had work
    struct xdna_last_error error;
    struct entry entries[MAX_CONTEXTS];
};

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

// ---- processes ----

// When a process began, in ticks since boot; 0: there is none.
static uint64_t started(int32_t pid) {
    char path[48], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE * f = accel_libc()->fopen(path, "re");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) {
        fclose(f);
    }
    line[n] = '\0';
    const char * at = strrchr(line, ')'); // the name before it may hold anything
    unsigned long long ticks = 0;
    for (int field = 0; at && field < 20; field++) {
        at = strchr(at + 1, ' ');
    }
    return at && sscanf(at, "%llu", &ticks) == 1 ? ticks : 0;
}

static bool alive(const struct entry * e) {
    return e->pid == getpid() ? true : started(e->pid) == e->started;
}

// ---- locks ----

static void enter(struct accel_shared * s) {
    if (pthread_mutex_lock(&s->lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&s->lock);
    }
}

static void leave(struct accel_shared * s) {
    pthread_mutex_unlock(&s->lock);
}

static void robust(pthread_mutex_t * m) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(m, &a);
    pthread_mutexattr_destroy(&a);
}

// ---- the file ----

static void boot_id(char text[40]) {
    FILE * f = accel_libc()->fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(text, 40, f)) {
        *text = '\0';
    }
    if (f) {
        fclose(f);
    }
}

static void begin(struct accel_shared * s, const struct accel_settings * settings) {
    memset(s, 0, sizeof *s);
    boot_id(s->boot);
    snprintf(s->device, sizeof s->device, "%s", settings->model->name);
    snprintf(s->kernel, sizeof s->kernel, "%s", settings->kernel->name);
    robust(&s->lock);
    robust(&s->turn);
    s->magic = MAGIC;
}

static int refuse(const char * path, int error, const char * why) {
    fprintf(stderr, "accel-emu: ACCEL_EMU_SHARED=%s: %s\n", path, why);
    return -error;
}

// A name is a file of the user's runtime directory, which is his alone; a path is as it is.
static bool place(const char * name, char path[600]) {
    const char * dir = secure_getenv("XDG_RUNTIME_DIR");
    if (strchr(name, '/')) {
        snprintf(path, 600, "%s", name);
        return true;
    }
    snprintf(path, 600, "%.80s/ggml-hsa-accel-%.500s", dir ? dir : "", name);
    return dir && *dir == '/';
}

// Everyone who maps it can end everyone else: it must be ours alone.
static int check_file(const char * path, int fd) {
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return refuse(path, EINVAL, "is no regular file");
    }
    if (info.st_uid != geteuid() || info.st_mode & 077) {
        return refuse(path, EACCES,
                      "others may read or write it; it must be this user's, mode 600");
    }
    if (info.st_size != 0 && info.st_size != (off_t) sizeof(struct accel_shared)) {
        return refuse(path, EINVAL, "is another file than one of a played device");
    }
    return 0;
}

static int check_content(const char * path, struct accel_shared * s,
                         const struct accel_settings * settings) {
    char boot[40];
    boot_id(boot);
    if (s->magic == 0 || strncmp(s->boot, boot, sizeof boot) != 0) { // new, or before a restart
        begin(s, settings);
    }
    if (s->magic != MAGIC) {
        return refuse(path, EINVAL, "was written by another version");
    }
    if (strncmp(s->device, settings->model->name, sizeof s->device) ||
        strncmp(s->kernel, settings->kernel->name, sizeof s->kernel)) {
        return refuse(path, EINVAL, "is of another device or kernel than this process plays");
    }
    return 0;
}

static int open_file(const struct accel_settings * settings, struct accel_shared ** out) {
    char path[600];
    if (!place(settings->shared, path)) {
        return refuse(settings->shared, EINVAL, "a name wants XDG_RUNTIME_DIR; give a path");
    }
    int fd = accel_libc()->open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return refuse(path, errno, strerror(errno));
    }
    flock(fd, LOCK_EX);
    int result = check_file(path, fd);
    if (result == 0 && ftruncate(fd, sizeof **out) != 0) {
        result = refuse(path, errno, strerror(errno));
    }
    struct accel_shared * s = MAP_FAILED;
    if (result == 0) {
        s = accel_libc()->mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        result = s == MAP_FAILED ? refuse(path, ENOMEM, strerror(errno))
                                 : check_content(path, s, settings);
    }
    flock(fd, LOCK_UN); // closing does not, for the mapping holds on to the file
    accel_libc()->close(fd);
    if (result != 0 && s != MAP_FAILED) {
        accel_libc()->munmap(s, sizeof *s);
    }
    *out = result == 0 ? s : NULL;
    return result;
}

// Memory of a process and its children stays as long as nothing else is played in it.
static bool same(const struct accel_device * dev) {
    const struct accel_shared * s = dev->shared;
    return s && !*dev->settings.shared && !dev->shared_file &&
           !strcmp(s->device, dev->settings.model->name) &&
           !strcmp(s->kernel, dev->settings.kernel->name);
}

int accel_shared_open(struct accel_device * dev) {
    if (same(dev)) {
        return 0;
    }
    if (dev->shared) {
        accel_libc()->munmap(dev->shared, sizeof *dev->shared);
        dev->shared = NULL;
    }
    dev->shared_file = *dev->settings.shared;
    if (dev->shared_file) {
        return open_file(&dev->settings, &dev->shared);
    }
    void * p = accel_libc()->mmap(NULL, sizeof *dev->shared, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return -ENOMEM;
    }
    dev->shared = p;
    begin(dev->shared, &dev->settings);
    return 0;
}

// ---- contexts ----

// The entries of the living; those of the dead are freed. The lock is held.
static uint64_t sweep(struct accel_shared * s) {
    uint64_t n = 0;
    for (int i = 0; i < MAX_CONTEXTS; i++) {
        struct entry * e = &s->entries[i];
        if (e->pid && !alive(e)) {
            memset(e, 0, sizeof *e);
        }
        n += e->pid != 0;
    }
    return n;
}

static bool id_taken(const struct accel_shared * s, uint32_t id) {
    bool taken = false;
    for (int i = 0; i < MAX_CONTEXTS; i++) {
        taken |= s->entries[i].pid && s->entries[i].id == id;
    }
    return taken;
}

uint64_t accel_shared_count(struct accel_device * dev) {
    enter(dev->shared);
    uint64_t n = sweep(dev->shared);
    leave(dev->shared);
    return n;
}

// Contexts with the same columns share them in turns; columns of which another context has a part
// only are not to be had. Newer firmware of aie2p gives every context the whole array.
static bool find_columns(const struct accel_settings * settings, const struct accel_shared * s,
                         struct accel_context * x) {
    const struct accel_model * m = settings->model;
    if (m->whole_array && settings->kernel->upstream) {
        x->first_column = 0;
        x->columns = m->columns;
        return true;
    }
    unsigned first = x->columns == m->columns ? 0 : m->first_column;
    bool shared = false;
    for (unsigned at = first; at + x->columns <= m->columns; at++) {
        bool free_place = true, equal = false;
        for (const struct entry * o = s->entries; o < s->entries + MAX_CONTEXTS; o++) {
            if (o->pid) {
                free_place &=
                    at + x->columns <= o->first_column || o->first_column + o->columns <= at;
                equal |= o->first_column == at && o->columns == x->columns;
            }
        }
        if (free_place || (equal && !shared)) {
            x->first_column = at;
            shared = true;
        }
        if (free_place) {
            return true;
        }
    }
    return shared;
}

enum accel_place accel_shared_add(struct accel_device * dev, struct accel_context * x) {
    struct accel_shared * s = dev->shared;
    const struct accel_settings * settings = &dev->settings;
    enum accel_place result = ACCEL_PLACE_OK;
    uint64_t ids = settings->context_ids;
    int free_entry = -1;
    enter(s);
    uint64_t n = sweep(s);
    for (int i = 0; i < MAX_CONTEXTS && free_entry < 0; i++) {
        free_entry = s->entries[i].pid ? -1 : i;
    }
    if (!find_columns(settings, s, x)) {
        result = ACCEL_PLACE_NO_COLUMNS;
    } else if (n >= settings->contexts || free_entry < 0) {
        result = ACCEL_PLACE_NO_CONTEXT;
    } else if (settings->kernel->device_ids) {
        x->id = 0;
        for (uint64_t i = 0; i < ids && !x->id; i++) {
            uint32_t id = (uint32_t) ((s->last_id + i) % ids + 1);
            x->id = id_taken(s, id) ? 0 : id;
        }
        s->last_id = x->id ? x->id : s->last_id;
        result = x->id ? result : ACCEL_PLACE_NO_ID;
    }
    if (result == ACCEL_PLACE_OK) {
        x->entry = free_entry;
        s->used = s->used > free_entry ? s->used : free_entry + 1;
        x->key = ++s->keys;
        s->entries[free_entry] = (struct entry){
            .pid = getpid(),
            .id = x->id,
            .started = started(getpid()),
            .key = x->key,
            .first_column = x->first_column,
            .columns = x->columns,
        };
    }
    leave(s);
    return result;
}

void accel_shared_remove(struct accel_device * dev, const struct accel_context * x) {
    struct accel_shared * s = dev->shared;
    enter(s);
    if (x->entry >= 0 && s->entries[x->entry].key == x->key) {
        memset(&s->entries[x->entry], 0, sizeof s->entries[0]);
    }
    leave(s);
}

void accel_shared_tell(struct accel_device * dev, const struct accel_context * x) {
    struct accel_shared * s = dev->shared;
    enter(s);
    struct entry * e = &s->entries[x->entry];
    e->id = x->id;
    e->submitted = x->timeline->submitted;
    e->ended = x->timeline->ended;
    e->errors = x->errors;
    leave(s);
}

size_t accel_shared_list(struct accel_device * dev, struct xdna_context_entry * out, size_t max) {
    struct accel_shared * s = dev->shared;
    size_t n = 0;
    enter(s);
    sweep(s);
    for (int i = 0; i < MAX_CONTEXTS && n < max; i++) {
        const struct entry * e = &s->entries[i];
        if (e->pid) {
            out[n++] = (struct xdna_context_entry){
                .id = e->id,
                .first_column = e->first_column,
                .columns = e->columns,
                .firmware_id = (uint32_t) i,
                .pid = e->pid,
                .submissions = e->submitted,
                .completions = e->ended,
                .errors = e->errors,
                .state = e->submitted != e->ended,
            };
        }
    }
    leave(s);
    return n;
}

// ---- turns ----

static bool others_wait(struct accel_shared * s) {
    bool found = false;
    for (int i = 0; i < s->used && i < MAX_CONTEXTS; i++) {
        const struct entry * e = &s->entries[i];
        found |= e->pid && e->pid != getpid() && __atomic_load_n(&e->waits, __ATOMIC_RELAXED);
    }
    return found;
}

// A mutex is not fair: who has just had his turn lets others go first.
static void let_others(struct accel_shared * s, uint64_t mine) {
    const struct timespec little = {0, 50000};
    for (int i = 0; i < 40 && s->turns == mine && others_wait(s); i++) {
        nanosleep(&little, NULL);
    }
}

bool accel_turn_begin(struct accel_device * dev, struct accel_context * x) {
    struct accel_shared * s = dev->shared;
    struct entry * e = &s->entries[x->entry];
    const struct accel_settings * settings = &dev->settings;
    __atomic_store_n(&e->waits, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&dev->lock);
    if (dev->last_turn) {
        let_others(s, dev->last_turn);
    }
    bool died = pthread_mutex_lock(&s->turn) == EOWNERDEAD;
    if (died) {
        pthread_mutex_consistent(&s->turn);
        memset(s->owner, 0, sizeof s->owner);
    }
    dev->last_turn = ++s->turns;
    __atomic_store_n(&e->waits, false, __ATOMIC_RELAXED);
    pthread_mutex_lock(&dev->lock);
    bool rested = now_ns() - s->last_ns >= settings->idle_ms * 1000000;
    bool kept = !rested;
    for (unsigned c = x->first_column; c < x->first_column + x->columns && c < COLUMNS; c++) {
        kept &= s->owner[c] == x->key;
        s->owner[c] = x->key;
    }
    return kept || !settings->kernel->upstream;
}

void accel_turn_end(struct accel_device * dev) {
    dev->shared->last_ns = now_ns();
    pthread_mutex_unlock(&dev->shared->turn);
}

// ---- what the device says of itself ----

uint32_t * accel_shared_power(struct accel_device * dev) {
    return &dev->shared->power_mode;
}

bool accel_shared_busy(const struct accel_device * dev) {
    return now_ns() - dev->shared->last_ns < UINT64_C(1000000000);
}

struct xdna_last_error * accel_shared_error(struct accel_device * dev) {
    return &dev->shared->error;
}
