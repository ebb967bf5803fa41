// external: see external.h. The program is run by us but not trusted to have worked: its files are
// opened without following links, bounded in size, and passed by the verifier before anyone sees
// them. Its directory is removed in all cases, whatever it put there.
#include "external.h"

#include "aie/verify/verify.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/workplace.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// As in packs.c: what the largest arrays could need.
#define MAX_PDI_BYTES   ((size_t) 16 << 20)
#define MAX_INSTS_BYTES ((size_t) 4 << 20)

#define DEFAULT_TIMEOUT_S 600u
#define MAX_TIMEOUT_S     86400u // a day; more is a typing error
#define MAX_WORDS         64     // of the command
#define KEPT_OUTPUT       4096
#define SHOWN_OUTPUT      220 // of the end, in an error's text

static const char not_active[] = "IRON environment is not active. Run source env_setup.sh first.";

// ---- the command ----

struct command {
    char * text; // the variable, cut into words
    char * words[MAX_WORDS];
    int n_words; // 0: not set
    bool too_long;
};

static void command_free(struct command * c) {
    free(c->text);
}

static void command_read(struct command * c) {
    *c = (struct command){0};
    const char * value = secure_getenv("GGML_HSA_JIT_COMMAND");
    c->text = value && *value ? strdup(value) : NULL;
    char * rest = NULL;
    for (char * w = c->text ? strtok_r(c->text, " \t\n", &rest) : NULL; w;
         w = strtok_r(NULL, " \t\n", &rest)) {
        if (c->n_words == MAX_WORDS) {
            c->too_long = true;
            break;
        }
        c->words[c->n_words++] = w;
    }
}

bool external_available(void) {
    struct command c;
    command_read(&c);
    char * path = c.n_words ? process_find(c.words[0]) : NULL;
    bool available = path != NULL;
    free(path);
    command_free(&c);
    return available;
}

// The largest program or script whose content counts; beyond that its name has to do.
#define MAX_PROGRAM_BYTES ((size_t) 64 << 20)

bool external_identity(char out[EXTERNAL_IDENTITY_MAX]) {
    struct command c;
    command_read(&c);
    bool is_set = c.n_words > 0;
    struct buf all = {0};
    for (int i = 0; i < c.n_words; i++) {
        uint8_t *data, digest[SHA256_BYTES];
        size_t size;
        char * found = i ? NULL : process_find(c.words[0]);
        buf_append(&all, c.words[i], strlen(c.words[i]) + 1);
        if (file_read(found ? found : c.words[i], MAX_PROGRAM_BYTES, &data, &size, NULL) == ST_OK) {
            sha256(data, size, digest);
            buf_append(&all, digest, sizeof digest);
            free(data);
        }
        free(found);
    }
    is_set = is_set && !all.failed;
    if (is_set) {
        uint8_t digest[SHA256_BYTES];
        char text[SHA256_TEXT];
        sha256(all.data, all.size, digest);
        sha256_print(digest, text);
        snprintf(out, EXTERNAL_IDENTITY_MAX, "external %s", text);
    }
    buf_free(&all);
    command_free(&c);
    return is_set;
}

bool external_supports(const struct kernel_spec * spec) {
    for (int i = 0; i < spec->n_inputs; i++) {
        struct tensor t = tensor_canonical(&spec->inputs[i]);
        if (!tensor_is_contiguous(&t)) {
            return false;
        }
    }
    struct tensor t = tensor_canonical(&spec->output);
    return tensor_is_contiguous(&t) && external_available();
}

static unsigned timeout_s(void) {
    const char * value = getenv("GGML_HSA_JIT_TIMEOUT");
    char * end;
    errno = 0;
    unsigned long s = value && isdigit((unsigned char) *value) ? strtoul(value, &end, 10) : 0;
    return s == 0 || errno || *end || s > MAX_TIMEOUT_S ? DEFAULT_TIMEOUT_S : (unsigned) s;
}

// ---- its arguments ----

struct arguments {
    struct buf text; // one after the other, each with its zero
    size_t at[MAX_WORDS + 16 + KERNEL_MAX_INPUTS];
    int n;
};

static void add(struct arguments * a, const char * text) {
    a->at[a->n++] = a->text.size;
    buf_append(&a->text, text, strlen(text) + 1);
}

static void add_tensor(struct arguments * a, const struct tensor * raw) {
    struct tensor t = tensor_canonical(raw);
    struct buf text = {0};
    tensor_print(&t, &text);
    a->text.failed |= text.failed;
    add(a, text.data ? (char *) text.data : "");
    buf_free(&text);
}

// "ggml_op_mul_mat" is MUL_MAT there, "ggml_unary_op_relu" RELU.
static void add_op(struct arguments * a, enum kernel_op op) {
    static const char * const prefixes[] = {"ggml_op_", "ggml_unary_op_", "ggml_glu_op_"};
    const char * name = kernel_op_info(op)->ggml_name;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i]);
        if (!strncmp(name, prefixes[i], n)) {
            name += n;
            break;
        }
    }
    char upper[64];
    snprintf(upper, sizeof upper, "%s", name);
    for (char * p = upper; *p; p++) {
        *p = (char) toupper((unsigned char) *p);
    }
    add(a, upper);
}

static void add_params(struct arguments * a, const struct kernel_spec * spec) {
    char text[KERNEL_MAX_PARAMS * 9 + 1];
    int n = 0;
    for (int i = 0; i < kernel_op_info(spec->op)->n_params && i < KERNEL_MAX_PARAMS; i++) {
        n += snprintf(text + n, sizeof text - (size_t) n, i ? ",%08x" : "%08x", spec->params[i]);
    }
    if (n) {
        add(a, "--op_params");
        add(a, text);
    }
}

static void make_arguments(struct arguments * a, const struct command * c,
                           const struct kernel_spec * spec, const char * name, const char * dir,
                           bool verbose) {
    for (int i = 0; i < c->n_words; i++) {
        add(a, c->words[i]);
    }
    add(a, "--op_name");
    add_op(a, spec->op);
    add(a, "--arch");
    add(a, kernel_arch_name(spec->arch));
    add(a, "--input_tensors");
    for (int i = 0; i < spec->n_inputs && i < KERNEL_MAX_INPUTS; i++) {
        add_tensor(a, &spec->inputs[i]);
    }
    add(a, "--output_tensor");
    add_tensor(a, &spec->output);
    add_params(a, spec);
    if (spec->precision == KERNEL_EXACT && kernel_has_exact(spec)) {
        add(a, "--precision");
        add(a, kernel_precision_name(KERNEL_EXACT));
    }
    add(a, "--exported_name");
    add(a, name);
    add(a, "--output_directory");
    add(a, dir);
    if (verbose) {
        add(a, "--verbose");
    }
}

// ---- its files ----

static enum status read_output(int dir, const char * name, const char * suffix, size_t max,
                               uint8_t ** data, size_t * size, struct error * err) {
    char file[KERNEL_NAME_MAX + 16];
    snprintf(file, sizeof file, "%s%s", name, suffix);
    int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        int e = errno;
        return error_set(err, e == ENOENT ? ST_NOT_FOUND : ST_CORRUPT, "it left no usable %s: %s",
                         suffix, e == ELOOP ? "it is a symbolic link" : strerror(e));
    }
    struct stat info;
    uint8_t * bytes = NULL;
    size_t n = 0;
    enum status st = ST_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        st = error_set(err, ST_CORRUPT, "its %s is not a regular file", suffix);
    } else if (info.st_size <= 0 || (uint64_t) info.st_size > max) {
        st = error_set(err, ST_CORRUPT, "its %s has %lld bytes, 1 to %zu are accepted", suffix,
                       (long long) info.st_size, max);
    } else if (!(bytes = malloc((size_t) info.st_size))) {
        st = error_set(err, ST_NO_MEMORY, "no memory for its %s of %lld bytes", suffix,
                       (long long) info.st_size);
    }
    while (st == ST_OK && n < (size_t) info.st_size) {
        ssize_t got = read(fd, bytes + n, (size_t) info.st_size - n);
        if (got > 0) {
            n += (size_t) got;
        } else if (got == 0 || errno != EINTR) {
            st = error_set(err, ST_CORRUPT, "its %s could not be read whole", suffix);
        }
    }
    close(fd);
    if (st != ST_OK) {
        free(bytes);
        return st;
    }
    *data = bytes;
    *size = n;
    return ST_OK;
}

static enum status read_kernel(const struct kernel_spec * spec, int dir, const char * name,
                               struct kernel_code * out, struct error * err) {
    uint8_t *pdi = NULL, *insts = NULL;
    size_t pdi_size = 0, insts_size = 0;
    enum status st = read_output(dir, name, ".pdi", MAX_PDI_BYTES, &pdi, &pdi_size, err);
    if (st == ST_OK) {
        st = read_output(dir, name, "_insts.bin", MAX_INSTS_BYTES, &insts, &insts_size, err);
    }
    if (st == ST_OK) {
        struct error why = {0};
        st = aie_verify_files(spec, pdi, pdi_size, insts, insts_size, &why);
        if (st != ST_OK) {
            error_set(err, st, "its %s is broken: %s",
                      aie_verify_blames_stream(&why) ? "_insts.bin" : ".pdi", why.text);
        }
    }
    if (st != ST_OK) {
        free(pdi);
        free(insts);
        return st;
    }
    // The verifier made sure of whole words; malloc's alignment is good for them.
    *out = (struct kernel_code){pdi, pdi_size, (uint32_t *) (void *) insts, insts_size / 4};
    return ST_OK;
}

// ---- running ----

// The end of the output on one line: line ends as " | ", what could steer a terminal as '?'.
static void one_line(const struct buf * output, char text[SHOWN_OUTPUT + 1]) {
    size_t n = 0, size = output->size;
    while (size && isspace(output->data[size - 1])) {
        size--;
    }
    size_t from = size > SHOWN_OUTPUT / 2 ? size - SHOWN_OUTPUT / 2 : 0; // a line end takes three
    if (from) { // a line that was cut says nothing; an only line does, with dots in front
        const uint8_t * end = memchr(output->data + from, '\n', size - from);
        from = end ? (size_t) (end + 1 - output->data) : from;
        memcpy(text, "...", end ? 0 : 3);
        n = end ? 0 : 3;
    }
    for (size_t i = from; i < size && n + 3 < SHOWN_OUTPUT; i++) {
        uint8_t c = output->data[i];
        if (c == '\n') {
            memcpy(text + n, " | ", 3);
            n += 3;
        } else {
            text[n++] = c == '\t' ? ' ' : c < 0x20 || c == 0x7f ? '?' : (char) c;
        }
    }
    text[n] = '\0';
}

// A program that said no, or did not come to an end, will do so again: ST_UNSUPPORTED keeps the
// store from promising this kernel once more.
static enum status explain(const struct process_end * end, const char * program, unsigned limit_s,
                           struct error * err) {
    char said[SHOWN_OUTPUT + 1];
    one_line(&end->output, said);
    const char *before = *said ? "; it said: " : "", *after = said;
    if (end->timed_out) {
        return error_set(err, ST_UNSUPPORTED,
                         "%.100s was killed after %u s (GGML_HSA_JIT_TIMEOUT)%s%s", program,
                         limit_s, before, after);
    }
    if (end->known && end->signal) {
        return error_set(err, ST_IO, "%.100s was ended by signal %d%s%s", program, end->signal,
                         before, after);
    }
    // Python's way to say that the packages are not there; output is a C string.
    if (end->known && end->exit_status && end->output.data &&
        strstr((const char *) end->output.data, "No module named")) {
        return error_set(err, ST_NOT_FOUND, "%s %.100s failed with exit status %d%s%s", not_active,
                         program, end->exit_status, before, after);
    }
    if (end->known && end->exit_status) {
        return error_set(err, ST_UNSUPPORTED, "%.100s failed with exit status %d%s%s", program,
                         end->exit_status, before, after);
    }
    return ST_OK;
}

static enum status command_run(const struct command * c, const struct kernel_spec * spec,
                               const char * name, const struct workplace * w, struct error * err) {
    bool verbose = env_flag("GGML_HSA_JIT_VERBOSE", false);
    struct arguments a = {0};
    make_arguments(&a, c, spec, name, w->path, verbose);
    if (a.text.failed) {
        buf_free(&a.text);
        return error_set(err, ST_NO_MEMORY, "no memory for the arguments of %.100s", c->words[0]);
    }
    char * argv[sizeof a.at / sizeof a.at[0] + 1];
    for (int i = 0; i < a.n; i++) {
        argv[i] = (char *) a.text.data + a.at[i];
    }
    argv[a.n] = NULL;
    struct process p = {
        .argv = argv,
        .place = w,
        .time_limit_s = timeout_s(),
#ifdef GGML_HSA_JIT_STDOUT_REDIRECT
        .capture = true,
#endif
        .show = verbose,
        .keep = KEPT_OUTPUT,
    };
    struct process_end end;
    enum status st = process_run(&p, &end, err);
    if (st == ST_NOT_FOUND) {
        st = error_set(err, st, "%s (GGML_HSA_JIT_COMMAND: %.150s is no program that can be run)",
                       not_active, c->words[0]);
    } else if (st == ST_OK) {
        st = explain(&end, c->words[0], p.time_limit_s, err);
    }
    buf_free(&end.output);
    buf_free(&a.text);
    return st;
}

static enum status compile_in_workplace(const struct command * c, const struct kernel_spec * spec,
                                        struct kernel_code * out, struct error * err) {
    char name[KERNEL_NAME_MAX];
    kernel_name(spec, name);
    struct workplace w;
    enum status st = workplace_make("ggml-hsa-jit", &w, err);
    if (st != ST_OK) {
        return st;
    }
    st = command_run(c, spec, name, &w, err);
    if (st == ST_OK) {
        st = read_kernel(spec, w.dir, name, out, err);
        if (st != ST_OK) {
            error_prefix(err, st, "%.100s ended well, but", c->words[0]);
        }
    }
    workplace_remove(&w);
    return st;
}

enum status external_compile(const struct kernel_spec * spec, struct kernel_code * out,
                             struct error * err) {
    *out = (struct kernel_code){0};
    struct command c;
    command_read(&c);
    enum status st;
    if (c.n_words == 0) {
        st =
            error_set(err, ST_UNSUPPORTED, "no external compiler: GGML_HSA_JIT_COMMAND is not set");
    } else if (c.too_long) {
        st = error_set(err, ST_INVALID, "GGML_HSA_JIT_COMMAND has more than %d words", MAX_WORDS);
    } else {
        st = compile_in_workplace(&c, spec, out, err);
    }
    command_free(&c);
    return st;
}
