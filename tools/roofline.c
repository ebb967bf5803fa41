// roofline: see roofline.h. The launches of a node are what the emulated runtime noted of them
// (hsa_emu_launch), which is asked directly: the plugin has it open already.
#include "roofline.h"

#include "base/base.h"
#include "base/json.h"

#include "ggml-alloc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gpu_chip chips[] = {
#define CHIP(arch, emulated, ...) {#arch, #emulated, __VA_ARGS__},
#include "gpu-chips.def"
#undef CHIP
};
enum { CHIPS = sizeof chips / sizeof chips[0] };

const struct gpu_chip * gpu_chip_named(const char * arch) {
    for (int i = 0; i < CHIPS; i++) {
        if (!strcmp(arch, chips[i].arch)) {
            return &chips[i];
        }
    }
    return NULL;
}

void gpu_chips_list(char * text, size_t size) {
    size_t at = 0;
    text[0] = '\0';
    for (int i = 0; i < CHIPS && at < size; i++) {
        at += (size_t) snprintf(text + at, size - at, "%s%s", i ? ", " : "", chips[i].arch);
    }
}

const char * gpu_open(const char * plugin, const struct gpu_chip * chip, struct llm_device * out) {
    setenv("GGML_HSA_EMULATE", chip->emulated, 1);
    return llm_open_gpu(plugin, out);
}

// ---- what the runtime noted ----

static struct {
    hsa_status_t (*iterate_agents)(hsa_status_t (*)(hsa_agent_t, void *), void *);
    hsa_status_t (*launch)(hsa_agent_t, uint64_t, struct hsa_emu_launch *);
} runtime;

static bool find(void * library, const char * name, void * out) {
    void * address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

static bool runtime_open(void) {
    void * library = dlopen("libhsa-npu.so", RTLD_NOW | RTLD_NOLOAD);
    return library && find(library, "hsa_iterate_agents", &runtime.iterate_agents) &&
           find(library, "hsa_emu_launch", &runtime.launch);
}

// The GPU is the agent that has launches.
static hsa_status_t visit(hsa_agent_t agent, void * user) {
    struct hsa_emu_launch l = {.size = sizeof l};
    if (runtime.launch(agent, 0, &l) == HSA_STATUS_SUCCESS) {
        *(hsa_agent_t *) user = agent;
    }
    return HSA_STATUS_SUCCESS;
}

static const char * take_launches(uint64_t before, hsa_agent_t agent, struct gpu_account * a) {
    struct hsa_emu_launch last = {.size = sizeof last};
    if (runtime.launch(agent, 0, &last) != HSA_STATUS_SUCCESS || last.number <= before) {
        return "no kernel ran";
    }
    a->n = (int) (last.number - before);
    if (a->n > HSA_EMU_LAUNCHES) {
        return "it is more launches than the runtime remembers";
    }
    for (int i = 0; i < a->n && i < GPU_LAUNCHES; i++) {
        a->launches[i] = (struct hsa_emu_launch){.size = sizeof a->launches[i]};
        runtime.launch(agent, before + 1 + (uint64_t) i, &a->launches[i]);
    }
    return NULL;
}

// ---- what the op is ----

static double bytes_of(const struct ggml_tensor * node) {
    double bytes = (double) ggml_nbytes(node);
    for (int i = 0; i < GGML_MAX_SRC && node->src[i]; i++) {
        bool again = node->src[i]->data == node->data; // what is changed in place
        for (int k = 0; k < i; k++) {
            again = again || node->src[k] == node->src[i];
        }
        bytes += again ? 0 : (double) ggml_nbytes(node->src[i]);
    }
    const struct ggml_tensor *table = node->src[0], *ids = node->src[1];
    if (node->op == GGML_OP_GET_ROWS) { // of the table only the rows that are got
        bytes -= (double) ggml_nbytes(table);
        bytes += (double) ggml_row_size(table->type, table->ne[0]) * (double) ggml_nelements(ids);
    } else if (node->op == GGML_OP_SET_ROWS) {
        bytes -= (double) ggml_nbytes(node);
        bytes += (double) ggml_row_size(node->type, node->ne[0]) * (double) ggml_nrows(table);
    } else if (node->op == GGML_OP_MUL_MAT_ID) { // ids are zeros: one expert
        bytes -= (double) ggml_nbytes(table) * (double) (table->ne[2] - 1) / (double) table->ne[2];
    }
    return bytes;
}

static double flops_of(const struct ggml_tensor * node) {
    const struct ggml_tensor * k = node->src[1];
    switch (node->op) {
    case GGML_OP_MUL_MAT:
    case GGML_OP_MUL_MAT_ID:
        return 2.0 * (double) ggml_nelements(node) * (double) node->src[0]->ne[0];
    case GGML_OP_OUT_PROD:
        return 2.0 * (double) ggml_nelements(node) * (double) node->src[0]->ne[1];
    case GGML_OP_FLASH_ATTN_EXT: // products with keys and with values
        return 2.0 * (double) ggml_nrows(node->src[0]) * (double) k->ne[1] *
               (double) (k->ne[0] + node->src[2]->ne[0]);
    default:
        return 0;
    }
}

const char * gpu_compute(const struct llm_device * d, struct ggml_cgraph * graph,
                         const struct ggml_tensor * node, struct gpu_account * a) {
    struct hsa_emu_launch last = {.size = sizeof last};
    hsa_agent_t gpu = {0};
    if (ggml_backend_graph_compute(d->stream, graph) != GGML_STATUS_SUCCESS) {
        return "computing it failed";
    }
    if (!runtime_open() || runtime.iterate_agents(visit, &gpu) != HSA_STATUS_SUCCESS ||
        !gpu.handle) {
        return "no kernel ran on an emulated GPU";
    }
    // The second time finds what is made of weights once and for all.
    runtime.launch(gpu, 0, &last);
    if (ggml_backend_graph_compute(d->stream, graph) != GGML_STATUS_SUCCESS) {
        return "computing it failed";
    }
    a->bytes = bytes_of(node);
    a->flops = flops_of(node);
    return take_launches(last.number, gpu, a);
}

// ---- what a chip could do ----

uint32_t gpu_occupancy(const struct gpu_chip * chip, const struct hsa_emu_launch * l,
                       const char ** by) {
    bool rdna = chip->simds == 2;
    uint32_t width = rdna && l->lanes == 64 ? 2 : 1; // a wide wave of RDNA takes two of each
    uint32_t granule = chip->granule / width;
    uint32_t each = (l->vgprs + granule - 1) / granule * granule;
    uint32_t by_registers = each ? chip->vgprs / width / each : chip->waves;
    uint32_t items = l->group[0] * l->group[1] * l->group[2];
    uint32_t waves_of_group = (items + l->lanes - 1) / l->lanes;
    // Groups of a CU, whose waves its SIMDs share.
    uint32_t groups = l->group_bytes ? chip->lds * chip->simds / l->group_bytes : UINT32_MAX;
    uint32_t by_lds = l->group_bytes ? groups * waves_of_group / chip->simds : chip->waves;
    *by = "";
    uint32_t waves = chip->waves;
    if (by_registers < waves) {
        waves = by_registers;
        *by = "VGPRs";
    }
    if (by_lds < waves) {
        waves = by_lds;
        *by = "LDS";
    }
    return waves;
}

struct estimate {
    double memory, arithmetic, issue; // us
    bool matrix;                      // arithmetic by matrix instructions
    const char * bound;
    double most;
};

static uint64_t of_kind(const struct hsa_emu_launch * l, const char * name) {
    for (int i = 0; i < HSA_EMU_KINDS; i++) {
        if (!strcmp(l->kinds[i].name, name)) {
            return l->kinds[i].instructions;
        }
    }
    return 0;
}

static struct estimate estimate_of(const struct gpu_account * a) {
    const struct gpu_chip * c = a->chip;
    struct estimate e = {.memory = a->bytes / (c->gbs * 1e3), .bound = "memory"};
    double cycles = 0;
    for (int i = 0; i < a->n && i < GPU_LAUNCHES; i++) {
        const struct hsa_emu_launch * l = &a->launches[i];
        // A SIMD of RDNA has 32 lanes, one of CDNA 16.
        double each = (double) l->lanes / (c->simds == 2 ? 32 : 16);
        cycles += each * (double) (of_kind(l, "vector") + of_kind(l, "dot"));
        e.matrix = e.matrix || of_kind(l, "matrix") > 0;
    }
    e.arithmetic = a->flops / ((e.matrix ? c->f16 : c->f32) * c->cus * c->mhz);
    e.issue = cycles / (c->cus * c->simds * c->mhz);
    e.most = e.memory;
    if (e.arithmetic > e.most) {
        e.most = e.arithmetic;
        e.bound = "arithmetic";
    }
    if (e.issue > e.most) {
        e.most = e.issue;
        e.bound = "issue";
    }
    return e;
}

// ---- telling ----

static const char * with_commas(uint64_t v, char text[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long) v), at = 0;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

static void print_launch(const struct gpu_account * a, const struct hsa_emu_launch * l) {
    const char * by;
    char text[32], more[32];
    uint32_t waves = gpu_occupancy(a->chip, l, &by);
    printf("\n  %s\n", l->kernel);
    printf("  groups          %llu of %u work-items, %s waves of %u\n",
           (unsigned long long) l->grid[0] * l->grid[1] * l->grid[2] /
               ((unsigned long long) l->group[0] * l->group[1] * l->group[2]),
           l->group[0] * l->group[1] * l->group[2], with_commas(l->waves, text), l->lanes);
    printf("  code object     %u VGPRs, %u bytes of LDS, %u of scratch\n", l->vgprs, l->group_bytes,
           l->private_bytes);
    printf("  occupancy       %u of %u waves a SIMD%s%s\n", waves, a->chip->waves,
           *by ? ", by " : "", by);
    printf("  instructions    %s\n", with_commas(l->instructions, text));
    for (int i = 0; i < HSA_EMU_KINDS; i++) {
        if (!l->kinds[i].instructions) {
            continue;
        }
        printf("  %-15s %5.1f %% %16s", l->kinds[i].name,
               100.0 * (double) l->kinds[i].instructions / (double) l->instructions,
               with_commas(l->kinds[i].instructions, text));
        if (l->kinds[i].bytes) {
            printf(", %s bytes, %.1f a lane", with_commas(l->kinds[i].bytes, more),
                   (double) l->kinds[i].bytes /
                       ((double) l->kinds[i].instructions *
                        (!strcmp(l->kinds[i].name, "constants") ? 1 : l->lanes)));
        }
        printf("\n");
    }
}

static void print_text(const char * op, const char * type, const char * shape,
                       const struct gpu_account * a) {
    const struct gpu_chip * c = a->chip;
    const struct estimate e = estimate_of(a);
    char text[32];
    printf("%s %s %s, a node of ggml on %s%s%s, emulated\n", op, type, shape, c->arch,
           strcmp(c->arch, c->emulated) ? " with the code of " : "",
           strcmp(c->arch, c->emulated) ? c->emulated : "");
    printf("times are estimated, by what this one could do at best: %s\n", c->name);
    printf("its figures: AMD, %s%s%s\n\n", c->source, *c->guessed ? "\nestimated of them: " : "",
           c->guessed);
    printf("  bytes           %s, every operand once\n", with_commas((uint64_t) a->bytes, text));
    if (a->flops > 0) {
        printf("  flops           %s, %.2f a byte\n", with_commas((uint64_t) a->flops, text),
               a->flops / a->bytes);
    }
    printf("  memory          %.3f us, %.0f GB/s\n", e.memory, c->gbs);
    if (a->flops > 0) {
        printf("  arithmetic      %.3f us, %.1f TFLOPS of %s\n", e.arithmetic,
               (e.matrix ? c->f16 : c->f32) * c->cus * c->mhz * 1e-6,
               e.matrix ? "f16 by matrix instructions" : "f32");
    }
    printf("  issue           %.3f us, vector instructions on %.0f SIMDs at %.0f MHz\n", e.issue,
           c->cus * c->simds, c->mhz);
    printf("  at least        %.3f us, by %s\n", e.most, e.bound);
    printf("  launches        %d\n", a->n);
    for (int i = 0; i < a->n && i < GPU_LAUNCHES; i++) {
        print_launch(a, &a->launches[i]);
    }
    if (a->n > GPU_LAUNCHES) {
        printf("\n  and %d more launches\n", a->n - GPU_LAUNCHES);
    }
}

static json_t * launch_json(const struct gpu_account * a, const struct hsa_emu_launch * l) {
    const char * by;
    uint32_t waves = gpu_occupancy(a->chip, l, &by);
    json_t * kinds = json_object();
    for (int i = 0; i < HSA_EMU_KINDS; i++) {
        json_put(&kinds, l->kinds[i].name,
                 json_pack("{s:I,s:I}", "instructions", (json_int_t) l->kinds[i].instructions,
                           "bytes", (json_int_t) l->kinds[i].bytes));
    }
    return json_pack("{s:s,s:[I,I,I],s:[I,I,I],s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:o}", "kernel",
                     l->kernel, "grid", (json_int_t) l->grid[0], (json_int_t) l->grid[1],
                     (json_int_t) l->grid[2], "group", (json_int_t) l->group[0],
                     (json_int_t) l->group[1], (json_int_t) l->group[2], "lanes",
                     (json_int_t) l->lanes, "vgprs", (json_int_t) l->vgprs, "lds_bytes",
                     (json_int_t) l->group_bytes, "scratch_bytes", (json_int_t) l->private_bytes,
                     "waves", (json_int_t) l->waves, "instructions", (json_int_t) l->instructions,
                     "occupancy", (json_int_t) waves, "occupancy_most", (json_int_t) a->chip->waves,
                     "occupancy_by", by, "kinds", kinds);
}

static int print_json(const char * op, const char * type, const char * shape,
                      const struct gpu_account * a) {
    const struct estimate e = estimate_of(a);
    json_t *root =
               json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:I}", "op", op, "type", type,
                         "shape", shape, "arch", a->chip->arch, "emulated", a->chip->emulated,
                         "chip", a->chip->name, "chip_source", a->chip->source, "chip_estimated",
                         a->chip->guessed, "bytes", (json_int_t) a->bytes, "flops",
                         (json_int_t) a->flops, "launches_count", (json_int_t) a->n),
           *launches = json_array();
    for (int i = 0; i < a->n && i < GPU_LAUNCHES; i++) {
        json_array_append_new(launches, launch_json(a, &a->launches[i]));
    }
    json_put(&root, "launches", launches);
    json_put(&root, "estimated_ns",
             json_pack("{s:I,s:I,s:I,s:s}", "memory", (json_int_t) (e.memory * 1e3), "arithmetic",
                       (json_int_t) (e.arithmetic * 1e3), "issue", (json_int_t) (e.issue * 1e3),
                       "bound", e.bound));
    return json_tell(root, JSON_INDENT(2), "ggml-hsa bench") ? 0 : 1;
}

int gpu_print(const char * op, const char * type, const char * shape, const struct gpu_account * a,
              bool json) {
    if (json) {
        return print_json(op, type, shape, a);
    }
    print_text(op, type, shape, a);
    return 0;
}
