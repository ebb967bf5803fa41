// part-file: see part-file.h. Of whisper.cpp's format every length is checked against what is left
// of the file before it is believed.
#include "part-file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TENSORS = 1 << 16, MOST_WORDS = 1 << 20, MOST_MELS = 1024, MOST_BINS = 1 << 16 };

bool part_file_is_whisper(const char * path) {
    char first[4] = "";
    FILE * file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    bool is = fread(first, 1, sizeof first, file) == sizeof first && !memcmp(first, "lmgg", 4);
    fclose(file);
    return is;
}

// ---- whisper.cpp's ----

struct reader {
    FILE * file;
    const char * path;
    uint64_t at, size;
    struct error * err;
};

static enum status torn(struct reader * r, const char * where) {
    return error_set(r->err, ST_CORRUPT, "%s: ends within %s, at byte %llu; get it anew", r->path,
                     where, (unsigned long long) r->size);
}

static enum status take(struct reader * r, void * to, size_t n, const char * where) {
    if (n > r->size - r->at || fread(to, 1, n, r->file) != n) {
        return torn(r, where);
    }
    r->at += n;
    return ST_OK;
}

static enum status skip(struct reader * r, uint64_t n, const char * where) {
    if (n > r->size - r->at || fseeko(r->file, (off_t) n, SEEK_CUR) != 0) {
        return torn(r, where);
    }
    r->at += n;
    return ST_OK;
}

static const struct {
    const char * name;
    int32_t most;
} sizes[WHISPER_SIZES] = {
    [WHISPER_VOCAB] = {"words", MOST_WORDS},
    [WHISPER_AUDIO_CONTEXT] = {"steps of sound", 1 << 16},
    [WHISPER_AUDIO_STATE] = {"numbers of a step", 1 << 16},
    [WHISPER_AUDIO_HEADS] = {"heads of the encoder", 1024},
    [WHISPER_AUDIO_LAYERS] = {"layers of the encoder", 512},
    [WHISPER_TEXT_CONTEXT] = {"tokens of text", 1 << 16},
    [WHISPER_TEXT_STATE] = {"numbers of a token", 1 << 16},
    [WHISPER_TEXT_HEADS] = {"heads of the decoder", 1024},
    [WHISPER_TEXT_LAYERS] = {"layers of the decoder", 512},
    [WHISPER_MELS] = {"bands of sound", MOST_MELS},
    [WHISPER_TYPE] = {"type", 1 << 16},
};

static enum status read_sizes(struct reader * r, int32_t out[WHISPER_SIZES]) {
    enum status st = take(r, out, WHISPER_SIZES * sizeof *out, "its sizes");
    for (int i = 0; i < WHISPER_TYPE && st == ST_OK; i++) {
        if (out[i] < 1 || out[i] > sizes[i].most) {
            st = error_set(r->err, ST_INVALID, "%s: %s: %d; 1 to %d are believed; get it anew",
                           r->path, sizes[i].name, out[i], sizes[i].most);
        }
    }
    for (int i = 0; i < 2 && st == ST_OK; i++) {
        int state = i ? WHISPER_TEXT_STATE : WHISPER_AUDIO_STATE;
        int heads = i ? WHISPER_TEXT_HEADS : WHISPER_AUDIO_HEADS;
        if (out[state] % out[heads]) {
            st = error_set(r->err, ST_INVALID, "%s: %d %s do not divide %d; get it anew", r->path,
                           out[heads], sizes[heads].name, out[state]);
        }
    }
    return st;
}

// The bank of filters and the words: nothing of them is asked.
static enum status pass_words(struct reader * r) {
    int32_t filters[2] = {0}, words = 0;
    enum status st = take(r, filters, sizeof filters, "its filters");
    if (st == ST_OK &&
        (filters[0] < 0 || filters[0] > MOST_MELS || filters[1] < 0 || filters[1] > MOST_BINS)) {
        st = error_set(r->err, ST_INVALID, "%s: filters of %d x %d; get it anew", r->path,
                       filters[0], filters[1]);
    }
    if (st == ST_OK) {
        st = skip(r, sizeof(float) * (uint64_t) filters[0] * (uint64_t) filters[1], "its filters");
    }
    if (st == ST_OK) {
        st = take(r, &words, sizeof words, "its words");
    }
    if (st == ST_OK && (words < 0 || words > MOST_WORDS)) {
        st = error_set(r->err, ST_INVALID, "%s: %d words; get it anew", r->path, words);
    }
    for (int32_t i = 0; i < words && st == ST_OK; i++) {
        uint32_t length = 0;
        st = take(r, &length, sizeof length, "its words");
        st = st == ST_OK ? skip(r, length, "its words") : st;
    }
    return st;
}

static enum status bad_tensor(struct reader * r, int64_t i, const char * what, int32_t value) {
    return error_set(r->err, ST_INVALID, "%s: tensor %lld has %s %d; get it anew", r->path,
                     (long long) i, what, value);
}

static enum status read_tensor(struct reader * r, int64_t i, struct part_tensor * out,
                               uint64_t * bytes) {
    enum { DIMS, LENGTH, TYPE, HEAD };
    enum { MOST_SIDE = 1 << 24 };
    int32_t head[HEAD], ne[GGML_MAX_DIMS] = {1, 1, 1, 1};
    enum status st = take(r, head, sizeof head, "a tensor's name");
    *out = (struct part_tensor){.ne = {1, 1, 1, 1}};
    if (st != ST_OK) {
        return st;
    }
    if (head[DIMS] < 1 || head[DIMS] > GGML_MAX_DIMS) {
        return bad_tensor(r, i, "dimensions:", head[DIMS]);
    }
    if (head[LENGTH] < 1 || head[LENGTH] >= GGML_MAX_NAME) {
        return bad_tensor(r, i, "a name of the length", head[LENGTH]);
    }
    if (head[TYPE] < 0 || head[TYPE] >= GGML_TYPE_COUNT ||
        ggml_blck_size((enum ggml_type) head[TYPE]) < 1) {
        return bad_tensor(r, i, "the unknown datatype", head[TYPE]);
    }
    out->type = (enum ggml_type) head[TYPE];
    st = take(r, ne, (size_t) head[DIMS] * sizeof *ne, "a tensor's shape");
    uint64_t elements = 1;
    for (int k = 0; k < head[DIMS] && st == ST_OK; k++) {
        if (ne[k] < 1 || ne[k] > MOST_SIDE || elements > UINT64_MAX / 1024 / (uint64_t) ne[k]) {
            return bad_tensor(r, i, "the dimension", ne[k]);
        }
        elements *= (uint64_t) ne[k];
        out->ne[k] = ne[k];
    }
    st = st == ST_OK ? take(r, out->name, (size_t) head[LENGTH], "a tensor's name") : st;
    if (st == ST_OK && ne[0] % ggml_blck_size(out->type)) {
        return bad_tensor(r, i, "rows that are no whole blocks:", ne[0]);
    }
    *bytes = elements / (uint64_t) ggml_blck_size(out->type) * ggml_type_size(out->type);
    return st == ST_OK ? skip(r, *bytes, out->name) : st;
}

static enum status read_whisper(struct reader * r, struct part_file * out) {
    char magic[4];
    enum status st = take(r, magic, sizeof magic, "its first word");
    st = st == ST_OK ? read_sizes(r, out->whisper) : st;
    st = st == ST_OK ? pass_words(r) : st;
    int64_t room = 0;
    while (st == ST_OK && r->at < r->size && out->n < MOST_TENSORS) {
        if (out->n == room) {
            room = room ? 2 * room : 256;
            void * more = realloc(out->tensors, (size_t) room * sizeof *out->tensors);
            if (!more) {
                return error_set(r->err, ST_NO_MEMORY, "%s: no memory for its tensors", r->path);
            }
            out->tensors = more;
        }
        uint64_t bytes = 0;
        st = read_tensor(r, out->n, &out->tensors[out->n], &bytes);
        out->n += st == ST_OK;
        out->bytes += bytes;
    }
    return st;
}

static enum status open_whisper(const char * path, struct part_file * out, struct error * err) {
    struct reader r = {.file = fopen(path, "rb"), .path = path, .err = err};
    if (!r.file) {
        return error_set(err, ST_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    off_t end = fseeko(r.file, 0, SEEK_END) == 0 ? ftello(r.file) : -1;
    enum status st = end < 0 || fseeko(r.file, 0, SEEK_SET) != 0
                         ? error_set(err, ST_INVALID, "%s: %s", path, strerror(errno))
                         : ST_OK;
    r.size = end > 0 ? (uint64_t) end : 0;
    st = st == ST_OK ? read_whisper(&r, out) : st;
    fclose(r.file);
    return st;
}

// ---- GGUF ----

// gguf_init_from_file has checked what it says.
static enum status open_gguf(const char * path, struct part_file * out, struct error * err) {
    out->gguf = gguf_init_from_file(path, (struct gguf_init_params){true, NULL});
    if (!out->gguf) {
        return error_set(err, ST_CORRUPT, "%s: no GGUF file, or not a whole one; get it anew",
                         path);
    }
    int64_t n = gguf_get_n_tensors(out->gguf);
    out->tensors = calloc((size_t) n + 1, sizeof *out->tensors);
    if (!out->tensors) {
        return error_set(err, ST_NO_MEMORY, "%s: no memory for its tensors", path);
    }
    for (; out->n < n; out->n++) {
        struct part_tensor * t = &out->tensors[out->n];
        snprintf(t->name, sizeof t->name, "%s", gguf_get_tensor_name(out->gguf, out->n));
        t->type = gguf_get_tensor_type(out->gguf, out->n);
        memcpy(t->ne, gguf_get_tensor_ne(out->gguf, out->n), sizeof t->ne);
        out->bytes += gguf_get_tensor_size(out->gguf, out->n);
    }
    return ST_OK;
}

enum status part_file_open(const char * path, struct part_file * out, struct error * err) {
    *out = (struct part_file){.path = path};
    return part_file_is_whisper(path) ? open_whisper(path, out, err) : open_gguf(path, out, err);
}

void part_file_close(struct part_file * f) {
    if (f->gguf) {
        gguf_free(f->gguf);
    }
    free(f->tensors);
    *f = (struct part_file){0};
}

const struct part_tensor * part_file_find(const struct part_file * f, const char * name) {
    for (int64_t i = 0; i < f->n; i++) {
        if (!strcmp(f->tensors[i].name, name)) {
            return &f->tensors[i];
        }
    }
    return NULL;
}
