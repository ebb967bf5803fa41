// panels: see the header. Tensors in panels are a list by address; a byte of one is where place()
// says.
#include "panels-impl.h"

#include "hsa/hsac.h"
#include "mat.h"

#include <stdlib.h>
#include <string.h>

void panels_init(struct panels * all, struct hsac_agent * agent) {
    *all = (struct panels){.agent = agent};
    pthread_mutex_init(&all->lock, NULL);
}

void panels_free(struct panels * all) {
    free(all->list);
    pthread_mutex_destroy(&all->lock);
}

// ---- where a byte is ----

static char * place(const struct paneled * p, size_t at, size_t * n) {
    if (p->kind == PLAIN) {
        return p->view.data + at;
    }
    return p->view.data + kernel_panel_at(&p->panel, p->row_bytes, at, n);
}

void panels_row(const struct kernel_panel * panel, const char * data, size_t row_bytes, int64_t row,
                char * out) {
    for (size_t done = 0, n; done < row_bytes; done += n) {
        n = row_bytes - done;
        size_t at = kernel_panel_at(panel, row_bytes, (size_t) row * row_bytes + done, &n);
        memcpy(out + done, data + at, n);
    }
}

// A panel at a time.
bool panels_arrange(const struct kernel_panel * panel, char * data, size_t size, size_t row_bytes,
                    bool to_panels) {
    size_t bytes = (size_t) panel->rows * row_bytes;
    char * rows = malloc(bytes);
    for (size_t first = 0; rows && first < size; first += bytes) {
        if (to_panels) {
            memcpy(rows, data + first, bytes);
        }
        for (size_t done = 0, n; done < bytes; done += n) {
            n = bytes - done;
            char * at = data + kernel_panel_at(panel, row_bytes, first + done, &n);
            memcpy(to_panels ? at : rows + done, to_panels ? rows + done : at, n);
        }
        if (!to_panels) {
            memcpy(data + first, rows, bytes);
        }
    }
    free(rows);
    return rows != NULL;
}

bool panels_lay_out(struct panels * all, const struct paneled * p, bool to_panels) {
    hsac_host_begin(all->agent, p->view.data, p->bytes);
    bool ok = panels_arrange(&p->panel, p->view.data, p->bytes, p->row_bytes, to_panels);
    hsac_host_end(all->agent, p->view.data, p->bytes);
    return ok;
}

// ---- the list ----

// The first that ends behind `at`.
static size_t find(const struct panels * all, const char * at) {
    size_t low = 0, high = all->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct paneled * p = &all->list[middle];
        if (p->view.data + p->bytes <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// The next one from `at` on that begins before `end`.
struct paneled * panels_next(const struct panels * all, const char * at, const char * end) {
    size_t i = find(all, at);
    return i < all->n && all->list[i].view.data < end ? &all->list[i] : NULL;
}

// The same, of those that do not lie row behind row.
static struct paneled * next_laid_out(const struct panels * all, const char * at,
                                      const char * end) {
    struct paneled * p = panels_next(all, at, end);
    while (p && p->kind == PLAIN) {
        p = panels_next(all, p->view.data + p->bytes, end);
    }
    return p;
}

static void forget(struct panels * all, const struct paneled * p) {
    size_t i = (size_t) (p - all->list);
    memmove(&all->list[i], &all->list[i + 1], (all->n - i - 1) * sizeof *all->list);
    atomic_store(&all->count, --all->n);
}

bool panels_remember(struct panels * all, const struct paneled * p) {
    if (all->n == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct paneled * list = realloc(all->list, room * sizeof *list);
        if (!list) {
            return false;
        }
        all->list = list;
        all->room = room;
    }
    size_t i = find(all, p->view.data);
    memmove(&all->list[i + 1], &all->list[i], (all->n - i) * sizeof *all->list);
    all->list[i] = *p;
    atomic_store(&all->count, ++all->n);
    return true;
}

bool panels_is_same(const struct paneled * p, const struct view * v) {
    return p->view.data == v->data && p->view.type == v->type &&
           !memcmp(p->view.ne, v->ne, sizeof v->ne) && !memcmp(p->view.nb, v->nb, sizeof v->nb);
}

// ---- uploads ----

bool panels_asked(void) {
    return env_flag("GGML_HSA_PANELS", true);
}

void panels_upload(struct panels * all, struct npu * npu, const struct ggml_tensor * tensor,
                   bool whole) {
    struct view v = view_of(tensor);
    struct paneled p = {.view = v, .bytes = ggml_nbytes(tensor), .row_bytes = v.nb[1]};
    const struct mat_world w = {.store = npu->store, .arch = npu->arch};
    if (!ggml_is_contiguous(tensor) || p.bytes == 0 || !panels_asked()) {
        return;
    }
    pthread_mutex_lock(&all->lock);
    struct paneled * there = panels_next(all, v.data, v.data + p.bytes);
    if ((!there || !panels_is_same(there, &v)) && mat_panel(&w, &v, &p.panel)) {
        while (
            (there = panels_next(all, v.data, v.data + p.bytes))) { // of a tensor that is no more
            if (there->kind != PLAIN) {
                panels_lay_out(all, there, false);
            }
            forget(all, there);
        }
        if ((whole || panels_lay_out(all, &p, true)) && !panels_remember(all, &p) && !whole) {
            panels_lay_out(all, &p, false);
        }
    }
    pthread_mutex_unlock(&all->lock);
}

// ---- ranges ----

enum access { READ, WRITE, FILL };
enum { FEW_BYTES = 8 }; // of those around them: less than one in so many

// Where the bytes of a tensor's range lie, as one piece: the panels that they are in.
struct piece {
    char * at;
    size_t size;
};

static struct piece panels_around(const struct paneled * p, size_t at, size_t n) {
    size_t bytes = (size_t) p->panel.rows * p->row_bytes;
    size_t first = p->kind == PLAIN ? at : at / bytes * bytes;
    size_t end = p->kind == PLAIN ? at + n : (at + n + bytes - 1) / bytes * bytes;
    return (struct piece){p->view.data + first, (end < p->bytes ? end : p->bytes) - first};
}

static void move_bytes(enum access what, char * to, char * data, uint8_t value, size_t n) {
    if (what == READ) {
        memcpy(data, to, n);
    } else if (what == WRITE) {
        memcpy(to, data, n);
    } else {
        memset(to, value, n);
    }
}

// Where few of the bytes of panels are touched, the NPU's view of each run is seen to by itself.
static void access_tensor(struct panels * all, enum access what, const struct paneled * p,
                          size_t at, char * data, uint8_t value, size_t size) {
    struct piece around = panels_around(p, at, size);
    bool one_by_one = FEW_BYTES * size < around.size;
    if (!one_by_one) {
        hsac_host_begin(all->agent, around.at, around.size);
    }
    for (size_t done = 0, n; done < size; done += n) {
        n = size - done;
        char * to = place(p, at + done, &n);
        if (one_by_one) {
            hsac_host_begin(all->agent, to, n);
        }
        move_bytes(what, to, data + done, value, n);
        if (one_by_one && what != READ) {
            hsac_host_end(all->agent, to, n);
        }
    }
    if (!one_by_one && what != READ) {
        hsac_host_end(all->agent, around.at, around.size);
    }
}

// Ranges may begin and end anywhere, and go over bytes between tensors.
static bool access_range(struct panels * all, enum access what, char * at, char * data,
                         uint8_t value, size_t size) {
    if (atomic_load(&all->count) == 0) {
        return false;
    }
    pthread_mutex_lock(&all->lock);
    const struct paneled * p = panels_next(all, at, at + size);
    bool any = p != NULL;
    for (size_t done = 0, n; any && done < size; done += n) {
        char * to = at + done;
        p = panels_next(all, to, at + size);
        n = size - done;
        if (p && p->view.data <= to) {
            size_t first = (size_t) (to - p->view.data), left = p->bytes - first;
            n = left < n ? left : n;
            access_tensor(all, what, p, first, data + done, value, n);
        } else {
            n = p ? (size_t) (p->view.data - to) : n;
            hsac_host_begin(all->agent, to, n);
            move_bytes(what, to, data + done, value, n);
            if (what != READ) {
                hsac_host_end(all->agent, to, n);
            }
        }
    }
    pthread_mutex_unlock(&all->lock);
    return any;
}

bool panels_write(struct panels * all, char * at, const void * data, size_t size) {
    return access_range(all, WRITE, at, (char *) (uintptr_t) data, 0, size);
}

bool panels_fill(struct panels * all, char * at, uint8_t value, size_t size) {
    return access_range(all, FILL, at, NULL, value, size);
}

bool panels_read(struct panels * all, const char * at, void * data, size_t size) {
    return access_range(all, READ, (char *) (uintptr_t) at, data, 0, size);
}

// ---- products ----

// One matrix of several, or some that follow each other, also with their rows as one's, where
// panels end with each.
static bool is_matrix_of(const struct paneled * p, const struct view * v) {
    size_t at = (size_t) (v->data - p->view.data), nb2 = p->view.nb[2];
    int64_t rows = p->view.ne[1], left = p->view.ne[2] - (int64_t) (at / nb2);
    bool within = v->ne[2] == 1 || (v->nb[2] == nb2 && v->ne[2] <= left && v->ne[1] == rows);
    bool follow = v->ne[1] == rows || (v->ne[1] % rows == 0 && v->ne[1] / rows <= left &&
                                       nb2 == (size_t) rows * v->nb[1]);
    return p->view.type == v->type && v->ne[0] == p->view.ne[0] && follow && within &&
           v->ne[3] == 1 && v->nb[0] == p->view.nb[0] && v->nb[1] == p->view.nb[1] &&
           p->panel.rows && rows % p->panel.rows == 0 && at % nb2 == 0;
}

struct kernel_panel panels_of(struct panels * all, const struct view * v) {
    struct kernel_panel panel = {0};
    if (all && atomic_load(&all->count)) {
        pthread_mutex_lock(&all->lock);
        const struct paneled * p = panels_next(all, v->data, v->data + 1);
        bool is = p && p->kind == WEIGHTS && v->data >= p->view.data &&
                  (panels_is_same(p, v) || is_matrix_of(p, v));
        panel = is ? p->panel : panel;
        pthread_mutex_unlock(&all->lock);
    }
    return panel;
}

bool panels_any(struct panels * all, const char * data, size_t size) {
    if (!all || atomic_load(&all->count) == 0) {
        return false;
    }
    pthread_mutex_lock(&all->lock);
    bool any = next_laid_out(all, data, data + size) != NULL;
    pthread_mutex_unlock(&all->lock);
    return any;
}

bool panels_plain(struct panels * all, char * data, size_t size) {
    struct paneled * p;
    bool ok = true;
    pthread_mutex_lock(&all->lock);
    while (ok && (p = next_laid_out(all, data, data + size))) {
        ok = panels_lay_out(all, p, false);
        if (ok && p->kind == HEADS) {
            p->kind = PLAIN;
        } else if (ok) {
            forget(all, p);
        }
    }
    pthread_mutex_unlock(&all->lock);
    return ok;
}
