// gen-kernels-build: makes the kernels of jobs and publishes them. Files get their names only when
// both are complete and on the disk, the instruction stream first, because readers look for the
// PDI. Two things make a thousand kernels a matter of a moment: kernels that share a program share
// its PDI on the disk too (hard links, where the file system has them), and many temporary files
// are brought to the disk in one go, after the last was written. Whatever happens, no temporary
// file stays; those of a run that was killed are removed by the next.
//
// Beside the kernels stand the programs that other shapes of their ops would run on (aie_related):
// with them a plugin without a compiler runs what a recording had not seen.
#include "gen-kernels.h"

#include "aie/aie.h"
#include "aie/plan/plan.h"
#include "base/out.h"
#include "store/external.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PDI, INSTS, FILES };
static const char * const suffixes[FILES] = {".pdi", "_insts.bin"};

#define TEMP_PREFIX ".tmp-gen-"
#define PATH_BYTES  (EXPORTED_NAME_MAX + 40)

// The PDI of a program is the same for all shapes; it is made once.
struct program {
    struct program * next;
    const struct aie_program * of;
    enum aie_arch arch;
    int columns; // as a spec has them
    char name[KERNEL_NAME_MAX];
    pthread_mutex_t lock; // held while it is made
    bool made;
    struct error error;
    uint8_t * data;
    struct manifest_file file;
    bool written; // as a file that others can be links to: see program_temp
};

struct build {
    struct jobs * jobs;
    const struct gen_options * options;
    int dirs[AIE_ARCH_COUNT]; // -1: not needed
    bool new_dirs[AIE_ARCH_COUNT];
    bool synced[AIE_ARCH_COUNT]; // all files that have no name yet are on the disk
    pthread_mutex_t lock;        // of the list
    struct program * programs;
    struct progress progress;
};

// ---- compiling ----

static bool command_is_set(void) {
    const char * command = secure_getenv("GGML_HSA_JIT_COMMAND");
    return command && *command;
}

enum status job_supported(const struct kernel_spec * spec, bool * external, struct error * err) {
    enum status st = aie_supports(spec, err);
    *external = st != ST_OK && command_is_set();
    if (!*external) {
        return st;
    }
    if (external_available() && !external_supports(spec)) {
        return st;
    }
    return ST_OK; // whether it can is known only when it ran
}

static struct program * get_program(struct build * b, const struct aie_program * of,
                                    enum aie_arch arch, int columns) {
    pthread_mutex_lock(&b->lock);
    struct program * p = b->programs;
    while (p && (p->arch != arch || p->of != of || p->columns != columns)) {
        p = p->next;
    }
    if (!p && (p = calloc(1, sizeof *p))) {
        p->of = of;
        p->arch = arch;
        p->columns = columns;
        aie_pdi_name(of, columns, p->name);
        pthread_mutex_init(&p->lock, NULL);
        p->next = b->programs;
        b->programs = p;
    }
    pthread_mutex_unlock(&b->lock);
    return p;
}

static void describe(const void * data, size_t size, struct manifest_file * out) {
    out->size = size;
    sha256(data, size, out->sha256);
}

static enum status program_make(struct program * p, struct error * err) {
    pthread_mutex_lock(&p->lock);
    if (!p->made) {
        size_t size;
        p->made = true;
        if (aie_pdi(p->of, p->arch, p->columns, &p->data, &size, &p->error) == ST_OK) {
            p->error.status = ST_OK;
            describe(p->data, size, &p->file);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return p->error.status == ST_OK ? ST_OK : error_set(err, p->error.status, "%s", p->error.text);
}

// The file that a program's PDIs are links to, while we work.
static void program_temp(const struct program * p, char name[PATH_BYTES]) {
    snprintf(name, PATH_BYTES, TEMP_PREFIX "%ld-%.190s", (long) getpid(), p->name);
}

static void programs_free(struct program * p, const int dirs[AIE_ARCH_COUNT]) {
    for (struct program * next; p; p = next) {
        next = p->next;
        if (p->written) {
            char name[PATH_BYTES];
            program_temp(p, name);
            unlinkat(dirs[p->arch], name, 0);
        }
        pthread_mutex_destroy(&p->lock);
        free(p->data);
        free(p);
    }
}

// ---- files ----

static void temp_name(const struct job * job, int file, char name[PATH_BYTES]) {
    snprintf(name, PATH_BYTES, TEMP_PREFIX "%ld-%d%s", (long) getpid(), job->index, suffixes[file]);
}

static void final_name(const struct job * job, int file, char name[PATH_BYTES]) {
    snprintf(name, PATH_BYTES, "%s%s", job->config.exported_name, suffixes[file]);
}

static enum status write_file(int dir, const char * name, const void * data, size_t size,
                              struct error * err) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    int code = fd < 0 ? errno : 0;
    for (size_t n = 0; !code && n < size;) {
        ssize_t put = write(fd, (const char *) data + n, size - n);
        if (put < 0 && errno != EINTR) {
            code = errno;
        }
        n += put > 0 ? (size_t) put : 0;
    }
    if (fd >= 0 && close(fd) != 0 && !code) {
        code = errno;
    }
    return code ? error_set(err, ST_IO, "cannot write: %s", strerror(code)) : ST_OK;
}

static enum status sync_file(int dir, const char * name, struct error * err) {
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int code = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return code ? error_set(err, ST_IO, "cannot write: %s", strerror(code)) : ST_OK;
}

// Gives a file its name, in place of a regular one that is there.
static enum status put_in_place(int dir, const char * temp, const char * name, struct error * err) {
    enum status st = out_may_write(dir, name, name, err);
    if (st == ST_OK && renameat(dir, temp, dir, name) != 0) {
        st = error_set(err, ST_IO, "%s", strerror(errno));
    }
    return st == ST_OK ? st : error_prefix(err, st, "cannot write %s", name);
}

static void remove_temps(const struct build * b, const struct job * job) {
    for (int f = 0; f < FILES; f++) {
        char name[PATH_BYTES];
        temp_name(job, f, name);
        unlinkat(b->dirs[job->config.spec.arch], name, 0);
    }
}

// Those of runs that were killed. A run that is still at it keeps its own.
static void remove_stale_temps(int dir) {
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR * d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent * e; d && (e = readdir(d));) {
        long pid = !strncmp(e->d_name, TEMP_PREFIX, strlen(TEMP_PREFIX))
                       ? strtol(e->d_name + strlen(TEMP_PREFIX), NULL, 10)
                       : 0;
        if (pid > 0 && kill((pid_t) pid, 0) != 0 && errno == ESRCH) {
            unlinkat(dir, e->d_name, 0);
        }
    }
    if (d) {
        closedir(d);
    } else if (fd >= 0) {
        close(fd);
    }
}

// ---- the two steps of a job ----

static bool is_same(int dir, const char * name, const void * data, size_t size) {
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat info;
    bool same = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                (uint64_t) info.st_size == size;
    for (size_t n = 0; same && n < size;) {
        char bytes[4096];
        ssize_t got = read(fd, bytes, sizeof bytes < size - n ? sizeof bytes : size - n);
        same = got > 0 && !memcmp(bytes, (const char *) data + n, (size_t) got);
        n += same ? (size_t) got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    return same;
}

// Makes `name` a link to the program's file; false where that cannot be, and it has to be a copy.
static bool link_program(struct program * p, int dir, const char * name) {
    char temp[PATH_BYTES];
    program_temp(p, temp);
    pthread_mutex_lock(&p->lock);
    if (!p->written) {
        struct error err;
        p->written = write_file(dir, temp, p->data, (size_t) p->file.size, &err) == ST_OK;
        if (!p->written) {
            unlinkat(dir, temp, 0);
        }
    }
    bool written = p->written;
    pthread_mutex_unlock(&p->lock);
    return written && linkat(dir, temp, dir, name, 0) == 0;
}

// `program` may be NULL: the PDI is this kernel's own.
static enum status make_files(struct build * b, struct job * job, struct program * program,
                              const struct kernel_code * code, struct error * err) {
    char name[PATH_BYTES];
    int dir = b->dirs[job->config.spec.arch];
    size_t insts_size = code->n_insts * sizeof *code->insts;
    describe(code->insts, insts_size, &job->entry.insts);
    final_name(job, PDI, name);
    job->unchanged = is_same(dir, name, code->pdi, code->pdi_size);
    final_name(job, INSTS, name);
    job->unchanged = job->unchanged && is_same(dir, name, code->insts, insts_size);
    if (job->unchanged) {
        return ST_OK;
    }
    temp_name(job, PDI, name);
    enum status st = ST_OK;
    if (!program || !link_program(program, dir, name)) {
        st = write_file(dir, name, code->pdi, code->pdi_size, err);
    }
    if (st == ST_OK) {
        temp_name(job, INSTS, name);
        st = write_file(dir, name, code->insts, insts_size, err);
    }
    return st;
}

static enum status make_own(struct build * b, struct job * job, struct error * err) {
    const struct kernel_spec * spec = &job->config.spec;
    struct kernel_code code = {0};
    struct aie_plan plan;
    enum status st = aie_plan(spec, &plan, err);
    if (st != ST_OK) {
        return st;
    }
    struct program * p = get_program(b, plan.program, spec->arch, spec->columns);
    st = p ? program_make(p, err) : error_set(err, ST_NO_MEMORY, "no memory");
    if (st == ST_OK) {
        job->entry.pdi = p->file;
        code.pdi = p->data;
        code.pdi_size = (size_t) p->file.size;
        st = aie_stream(&plan, &code.insts, &code.n_insts, err);
    }
    if (st == ST_OK) {
        st = make_files(b, job, p, &code, err);
    }
    free(code.insts);
    return st;
}

static enum status make_external(struct build * b, struct job * job, struct error * err) {
    struct kernel_code code = {0};
    enum status st = external_compile(&job->config.spec, &code, err);
    if (st == ST_OK) {
        describe(code.pdi, code.pdi_size, &job->entry.pdi);
        st = make_files(b, job, NULL, &code, err);
    }
    kernel_code_free(&code);
    return st;
}

static bool is_due(const struct job * job) {
    return job->error.status == ST_OK && !job->skipped;
}

static void make_job(void * user, int i) {
    struct build * b = user;
    struct job * job = &b->jobs->list[i];
    if (!is_due(job)) {
        return;
    }
    double start = seconds_now();
    struct error err = {0};
    enum status st = job_supported(&job->config.spec, &job->external, &err);
    if (st == ST_OK && !b->options->dry_run) {
        st = job->external ? make_external(b, job, &err) : make_own(b, job, &err);
        if (st != ST_OK) {
            remove_temps(b, job);
        }
    }
    if (st != ST_OK) {
        err.status = st;
        job->error = err;
    }
    kernel_name(&job->config.spec, job->entry.kernel);
    memcpy(job->entry.exported_name, job->config.exported_name, sizeof job->entry.exported_name);
    job->seconds = seconds_now() - start;
    progress_step(&b->progress);
}

// Brings all that was written to the disk. With every file by itself, 1000 kernels take seconds
// where others write too; with few files that is the lesser evil, as this waits for what others
// wrote.
static void sync_together(struct build * b) {
    enum { FEW = 16 };
    int written[AIE_ARCH_COUNT] = {0};
    for (int i = 0; i < b->jobs->n; i++) {
        const struct job * job = &b->jobs->list[i];
        written[job->config.spec.arch] += is_due(job) && job->entry.kernel[0] && !job->unchanged;
    }
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        b->synced[a] = written[a] > FEW && syncfs(b->dirs[a]) == 0;
    }
}

static void publish_job(void * user, int i) {
    struct build * b = user;
    struct job * job = &b->jobs->list[i];
    if (!is_due(job) || !job->entry.kernel[0]) {
        return;
    }
    if (job->unchanged) {
        job->published = true;
        return;
    }
    static const int order[FILES] = {INSTS, PDI};
    int dir = b->dirs[job->config.spec.arch];
    char temp[PATH_BYTES], name[PATH_BYTES];
    enum status st = ST_OK;
    for (int f = 0; f < FILES && st == ST_OK && !b->synced[job->config.spec.arch]; f++) {
        temp_name(job, f, temp);
        st = sync_file(dir, temp, &job->error);
    }
    for (int k = 0; k < FILES && st == ST_OK; k++) {
        temp_name(job, order[k], temp);
        final_name(job, order[k], name);
        st = put_in_place(dir, temp, name, &job->error);
        if (st != ST_OK && k > 0) { // a stream without its PDI
            final_name(job, order[0], name);
            unlinkat(dir, name, 0);
        }
    }
    job->published = st == ST_OK;
}

// ---- programs ----

// The programs of other shapes, for the kernels that came out well. One that cannot be made is no
// failure of the kernel that asked for it.
static void make_related(struct build * b) {
    for (int i = 0; i < b->jobs->n; i++) {
        const struct job * job = &b->jobs->list[i];
        const struct kernel_spec * spec = &job->config.spec;
        const struct aie_program * of;
        for (int k = 0; job->published && !job->external && (of = aie_related(spec, k)); k++) {
            struct error ignored;
            struct program * p = get_program(b, of, spec->arch, spec->columns);
            if (p) {
                (void) program_make(p, &ignored);
            }
        }
    }
}

static bool is_whole(const struct program * p) {
    return p->made && p->error.status == ST_OK;
}

// programs/<name>.pdi, a link to what the kernels are links to where that can be.
static enum status publish_program(const struct build * b, struct program * p, struct error * err) {
    int dir = b->dirs[p->arch];
    char temp[PATH_BYTES + 16], name[PATH_BYTES];
    snprintf(name, sizeof name, MANIFEST_PROGRAMS "/%s.pdi", p->name);
    if (is_same(dir, name, p->data, (size_t) p->file.size)) {
        return ST_OK;
    }
    snprintf(temp, sizeof temp, TEMP_PREFIX "%ld-p-%s", (long) getpid(), p->name);
    enum status st = ST_OK;
    if (!link_program(p, dir, temp)) {
        st = write_file(dir, temp, p->data, (size_t) p->file.size, err);
    }
    st = st == ST_OK ? sync_file(dir, temp, err) : st;
    st = st == ST_OK ? put_in_place(dir, temp, name, err) : st;
    unlinkat(dir, temp, 0); // also where both names were links to one file, which is no rename
    return st;
}

static enum status publish_programs(const struct build * b, enum aie_arch arch, struct manifest * m,
                                    struct error * err) {
    const char * compiler = store_own_compiler()->identity;
    struct stat info;
    if (mkdirat(b->dirs[arch], MANIFEST_PROGRAMS, 0777) != 0 && errno != EEXIST) {
        return error_set(err, ST_IO, MANIFEST_PROGRAMS ": %s", strerror(errno));
    }
    if (fstatat(b->dirs[arch], MANIFEST_PROGRAMS, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISDIR(info.st_mode)) {
        return error_set(err, ST_IO,
                         MANIFEST_PROGRAMS ": not a directory, which it has to be; move it away");
    }
    enum status st = ST_OK;
    for (struct program * p = b->programs; p && st == ST_OK; p = p->next) {
        if (p->arch != arch || !is_whole(p)) {
            continue;
        }
        struct manifest_program entry = {.pdi = p->file};
        memcpy(entry.name, p->name, sizeof entry.name);
        snprintf(entry.compiler, sizeof entry.compiler, "%s", compiler);
        st = publish_program(b, p, err);
        st = st == ST_OK ? manifest_put_program(m, &entry, err) : st;
    }
    return st;
}

// ---- directories and manifests ----

static enum status make_dirs(char * path, bool * made, struct error * err) {
    for (char * p = path + 1;; p++) {
        char c = *p;
        if (c != '/' && c != '\0') {
            continue;
        }
        *p = '\0';
        *made = mkdir(path, 0777) == 0;
        int code = errno;
        struct stat info;
        if (!*made && (code != EEXIST || stat(path, &info) != 0 || !S_ISDIR(info.st_mode))) {
            return error_set(err, ST_IO, "%s: %s", path, strerror(code == EEXIST ? ENOTDIR : code));
        }
        *p = c;
        if (c == '\0') {
            return ST_OK;
        }
    }
}

static enum status open_dirs(struct build * b, struct error * err) {
    for (int i = 0; i < b->jobs->n; i++) {
        enum aie_arch arch = b->jobs->list[i].config.spec.arch;
        if (!is_due(&b->jobs->list[i]) || b->dirs[arch] >= 0) {
            continue;
        }
        struct buf path = {0};
        buf_printf(&path, "%s/%s", b->options->output_dir, kernel_arch_name(arch));
        enum status st = path.failed ? error_set(err, ST_NO_MEMORY, "no memory for a path")
                                     : make_dirs((char *) path.data, &b->new_dirs[arch], err);
        if (st == ST_OK) {
            b->dirs[arch] = open((char *) path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            if (b->dirs[arch] < 0) {
                st = error_set(err, ST_IO, "%s: %s", (char *) path.data, strerror(errno));
            }
        }
        buf_free(&path);
        if (st != ST_OK) {
            return st;
        }
        remove_stale_temps(b->dirs[arch]);
    }
    return ST_OK;
}

static void close_dirs(struct build * b) {
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        if (b->dirs[a] < 0) {
            continue;
        }
        close(b->dirs[a]);
        struct buf path = {0};
        buf_printf(&path, "%s/%s", b->options->output_dir, kernel_arch_name((enum aie_arch) a));
        if (b->new_dirs[a] && !path.failed) {
            (void) rmdir((char *) path.data); // only one that nothing came into
        }
        buf_free(&path);
    }
}

static enum status write_manifest(const struct build * b, const struct manifest * m,
                                  enum aie_arch arch, struct error * err) {
    struct buf text = {0};
    char temp[64];
    int dir = b->dirs[arch];
    snprintf(temp, sizeof temp, TEMP_PREFIX "%ld-manifest", (long) getpid());
    enum status st = manifest_print(m, arch, &text, err);
    if (st == ST_OK) {
        st = write_file(dir, temp, text.data, text.size, err);
    }
    if (st == ST_OK) {
        st = sync_file(dir, temp, err);
    }
    st = st == ST_OK ? put_in_place(dir, temp, MANIFEST_FILE, err) : st;
    if (st != ST_OK) {
        unlinkat(dir, temp, 0);
    }
    buf_free(&text);
    return st;
}

// Reads what is there, adds ours, writes it back; a lock on the directory keeps other runs out.
static enum status update_manifest(const struct build * b, enum aie_arch arch,
                                   const struct manifest_entry * entries, size_t n,
                                   struct error * err) {
    struct buf path = {0};
    struct manifest m = {0};
    struct error damaged = {0};
    buf_printf(&path, "%s/%s/" MANIFEST_FILE, b->options->output_dir, kernel_arch_name(arch));
    if (path.failed) {
        buf_free(&path);
        return error_set(err, ST_NO_MEMORY, "no memory for a path");
    }
    while (flock(b->dirs[arch], LOCK_EX) != 0 && errno == EINTR) {
    }
    enum status st = manifest_read((char *) path.data, arch, &m, &damaged);
    if (st == ST_NO_MEMORY || st == ST_IO) {
        error_set(err, st, "%s", damaged.text);
    } else {
        if (st != ST_OK && st != ST_NOT_FOUND) {
            fprintf(stderr, "ggml-hsa-gen-kernels: %s; it is replaced\n", damaged.text);
        }
        st = manifest_merge(&m, entries, n, err);
        st = st == ST_OK ? publish_programs(b, arch, &m, err) : st;
        if (st == ST_OK && (st = write_manifest(b, &m, arch, err)) != ST_OK) {
            error_prefix(err, st, "%s", (char *) path.data);
        }
    }
    if (st == ST_OK && fsync(b->dirs[arch]) != 0 && errno != EINVAL) {
        st = error_set(err, ST_IO, "%s/%s: %s", b->options->output_dir, kernel_arch_name(arch),
                       strerror(errno));
    }
    flock(b->dirs[arch], LOCK_UN);
    manifest_free(&m);
    buf_free(&path);
    return st;
}

static enum status update_manifests(const struct build * b, struct error * err) {
    struct manifest_entry * entries =
        malloc((size_t) (b->jobs->n ? b->jobs->n : 1) * sizeof *entries);
    enum status st = entries ? ST_OK : error_set(err, ST_NO_MEMORY, "no memory for a manifest");
    for (int a = 0; a < AIE_ARCH_COUNT && st == ST_OK; a++) {
        size_t n = 0;
        for (int i = 0; i < b->jobs->n; i++) {
            const struct job * job = &b->jobs->list[i];
            if (job->published && (int) job->config.spec.arch == a) {
                entries[n++] = job->entry;
            }
        }
        if (n) {
            st = update_manifest(b, (enum aie_arch) a, entries, n, err);
        }
    }
    free(entries);
    return st;
}

enum status jobs_build(struct jobs * jobs, const struct gen_options * options, struct error * err) {
    static const atomic_bool never = false;
    struct build b = {.jobs = jobs, .options = options};
    int due = 0;
    for (int i = 0; i < jobs->n; i++) {
        due += is_due(&jobs->list[i]);
    }
    for (int a = 0; a < AIE_ARCH_COUNT; a++) {
        b.dirs[a] = -1;
    }
    pthread_mutex_init(&b.lock, NULL);
    enum status st = options->dry_run ? ST_OK : open_dirs(&b, err);
    if (st == ST_OK) {
        progress_begin(&b.progress, due);
        run_parallel(options->threads, jobs->n, options->stop, make_job, &b);
        progress_end(&b.progress);
    }
    if (st == ST_OK && !options->dry_run) {
        // What was made before a signal came is published: that takes a moment, and is whole.
        sync_together(&b);
        run_parallel(options->threads, jobs->n, &never, publish_job, &b);
        for (int i = 0; i < jobs->n; i++) {
            if (jobs->list[i].entry.kernel[0] && !jobs->list[i].published) {
                remove_temps(&b, &jobs->list[i]);
            }
        }
        make_related(&b);
        st = update_manifests(&b, err);
    }
    programs_free(b.programs, b.dirs);
    close_dirs(&b);
    pthread_mutex_destroy(&b.lock);
    return st;
}
