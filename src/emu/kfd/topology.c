// topology: the files in which the kernel driver describes a machine to ROCr, for
// HSA_MODEL_TOPOLOGY: node 0 is the host, those behind it are GPUs, each linked to the host.
//
// What ROCr's model wants of them: a gpu_id is the node's number plus one; memory of a GPU is of
// the kind that the host sees; in the capabilities, doorbells are of kind 2 and nothing is said of
// debuggers.
#include "emu/kfd/kfd.h"

#include "base/out.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    GPU_NODE = 1,
    PAGE = 4096,
    HEAP_SYSTEM = 0,
    HEAP_VISIBLE = 1,
    LINK_PCIE = 2,
    CACHE_DATA_OF_GPU = 1 | 8, // what kind of cache, bits
    CAP_RING_SIZES = 3 << 3,   // rings are powers of two and below 4 GiB
    CAP_DOORBELLS = 2 << 12,
    CAP_SRAM_ECC = 1 << 26,
    SCRATCH_WAVES_PER_CU = 32,
    FIRMWARE = 120, // of the packet processor; old enough that scratch is not taken back meanwhile
};

static const uint64_t gpu_ids = 0x80001000; // what the numbers of a GPU's parts begin with

struct value {
    const char * name;
    uint64_t value;
};

// ---- writing ----

static enum status make_dirs(char * path, struct error * err) {
    for (char * p = path + 1;; p++) {
        if (*p != '/' && *p) {
            continue;
        }
        char end = *p;
        *p = '\0';
        bool ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        *p = end;
        if (!ok) {
            return error_set(err, ST_IO, "%s: %s", path, strerror(errno));
        }
        if (!end) {
            return ST_OK;
        }
    }
}

// dir/place/name with text, and what is missing of the directories.
static enum status write_text(const char * dir, const char * place, const char * name,
                              const char * text, struct error * err) {
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/%s", dir, place);
    if (n < 0 || (size_t) n + strlen(name) + 2 > sizeof path) {
        return error_set(err, ST_INVALID, "%.80s...: the path is too long", dir);
    }
    enum status st = make_dirs(path, err);
    if (st != ST_OK) {
        return st;
    }
    snprintf(path + n, sizeof path - (size_t) n, "/%s", name);
    struct out out;
    st = out_begin(path, &out, err);
    if (st == ST_OK) {
        fputs(text, out.file); // out_end tells
        if ((st = out_end(&out, err)) != ST_OK) {
            error_prefix(err, st, "%s", path);
        }
    }
    return st;
}

static enum status write_values(const char * dir, const char * place, const char * name,
                                const struct value * values, size_t n, struct error * err) {
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        buf_printf(&text, "%s %" PRIu64 "\n", values[i].name, values[i].value);
    }
    enum status st = text.failed ? error_set(err, ST_NO_MEMORY, "no memory for %s", place)
                                 : write_text(dir, place, name, (const char *) text.data, err);
    buf_free(&text);
    return st;
}

#define WRITE(place, name, values)                                                                 \
    write_values(dir, place, name, values, sizeof(values) / sizeof(values)[0], err)

static uint64_t host_memory(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t) pages * (uint64_t) page : (uint64_t) 1 << 30;
}

static enum status write_link(const char * dir, int from, int to, struct error * err) {
    char place[64];
    snprintf(place, sizeof place, "nodes/%d/io_links/0", from);
    const struct value link[] = {
        {"type", LINK_PCIE},
        {"version_major", 0},
        {"version_minor", 0},
        {"node_from", (uint64_t) from},
        {"node_to", (uint64_t) to},
        {"weight", 20},
        {"min_latency", 0},
        {"max_latency", 0},
        {"min_bandwidth", 0},
        {"max_bandwidth", 0},
        {"recommended_transfer_size", 0},
        {"flags", 1},
    };
    return WRITE(place, "properties", link);
}

static enum status write_memory(const char * dir, int node, uint64_t heap, uint64_t bytes,
                                uint64_t bits, uint64_t mhz, struct error * err) {
    char place[64];
    snprintf(place, sizeof place, "nodes/%d/mem_banks/0", node);
    const struct value bank[] = {
        {"heap_type", heap}, {"size_in_bytes", bytes}, {"flags", 0},
        {"width", bits},     {"mem_clk_max", mhz},
    };
    return WRITE(place, "properties", bank);
}

static enum status write_host(const char * dir, struct error * err) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const struct value host[] = {
        {"cpu_cores_count", cores > 0 ? (uint64_t) cores : 1},
        {"simd_count", 0},
        {"mem_banks_count", 1},
        {"caches_count", 0},
        {"io_links_count", 1},
        {"cpu_core_id_base", 0},
        {"simd_id_base", 0},
        {"vendor_id", 0},
        {"device_id", 0},
        {"location_id", 0},
        {"drm_render_minor", 0},
        {"max_engine_clk_ccompute", 2000},
    };
    enum status st = write_text(dir, "nodes/0", "gpu_id", "0\n", err);
    st = st == ST_OK ? write_text(dir, "nodes/0", "name", "\n", err) : st;
    st = st == ST_OK ? WRITE("nodes/0", "properties", host) : st;
    st = st == ST_OK ? write_memory(dir, 0, HEAP_SYSTEM, host_memory(), 64, 2400, err) : st;
    return st == ST_OK ? write_link(dir, 0, GPU_NODE, err) : st;
}

static enum status write_caches(const char * dir, const struct emu_gpu_model * g,
                                struct error * err) {
    enum status st = ST_OK;
    for (int i = 0; i < EMU_GPU_CACHES && g->caches[i] && st == ST_OK; i++) {
        char place[64];
        snprintf(place, sizeof place, "nodes/%d/caches/%d", GPU_NODE, i);
        const struct value cache[] = {
            {"processor_id_low", gpu_ids},
            {"level", (uint64_t) i + 1},
            {"size", g->caches[i] / 1024},
            {"cache_line_size", g->cacheline},
            {"cache_lines_per_tag", 1},
            {"association", 0},
            {"latency", 0},
            {"type", CACHE_DATA_OF_GPU},
        };
        st = WRITE(place, "properties", cache);
    }
    return st;
}

static enum status write_gpu(const char * dir, const struct emu_gpu_model * g, struct error * err) {
    char place[64], id[16], name[32];
    uint32_t arrays = g->shader_engines * g->arrays_per_engine, caches = 0;
    while (caches < EMU_GPU_CACHES && g->caches[caches]) {
        caches++;
    }
    uint64_t memory = host_memory() / PAGE * PAGE;
    const struct value gpu[] = {
        {"cpu_cores_count", 0},
        {"simd_count", g->compute_units * g->simds_per_cu},
        {"mem_banks_count", 1},
        {"caches_count", caches},
        {"io_links_count", 1},
        {"cpu_core_id_base", 0},
        {"simd_id_base", gpu_ids},
        {"max_waves_per_simd", g->waves_per_cu / g->simds_per_cu},
        {"lds_size_in_kb", g->lds_bytes / 1024},
        {"gds_size_in_kb", 0},
        {"num_gws", 64},
        {"wave_front_size", g->wavefront},
        {"array_count", arrays},
        {"simd_arrays_per_engine", g->arrays_per_engine},
        {"cu_per_simd_array", (g->compute_units + arrays - 1) / arrays},
        {"simd_per_cu", g->simds_per_cu},
        {"max_slots_scratch_cu", SCRATCH_WAVES_PER_CU},
        {"gfx_target_version", g->version},
        {"vendor_id", 0x1002},
        {"device_id", g->chip_id},
        {"location_id", GPU_NODE << 8},
        {"domain", 0},
        {"drm_render_minor", 128},
        {"hive_id", 0},
        {"num_sdma_engines", g->copy_engines},
        {"num_sdma_xgmi_engines", 0},
        {"num_sdma_queues_per_engine", 8},
        {"num_cp_queues", 8},
        {"max_engine_clk_fcompute", g->clock_mhz},
        {"max_engine_clk_ccompute", 2000},
        {"local_mem_size", 0},
        {"fw_version", FIRMWARE},
        {"sdma_fw_version", 19},
        {"capability",
         CAP_RING_SIZES | CAP_DOORBELLS | (g->has_features ? (uint64_t) CAP_SRAM_ECC : 0)},
        {"debug_prop", 0},
        {"unique_id", ((uint64_t) g->chip_id << 32) + GPU_NODE},
        {"num_xcc", 1},
    };
    snprintf(place, sizeof place, "nodes/%d", GPU_NODE);
    snprintf(id, sizeof id, "%d\n", GPU_NODE + 1);
    snprintf(name, sizeof name, "%s\n", gfx_arch_name(g->arch));
    enum status st = write_text(dir, place, "gpu_id", id, err);
    st = st == ST_OK ? write_text(dir, place, "name", name, err) : st;
    st = st == ST_OK ? WRITE(place, "properties", gpu) : st;
    st = st == ST_OK ? write_memory(dir, GPU_NODE, HEAP_VISIBLE,
                                    g->vram_bytes < memory ? g->vram_bytes : memory, g->memory_bits,
                                    g->memory_mhz, err)
                     : st;
    st = st == ST_OK ? write_caches(dir, g, err) : st;
    return st == ST_OK ? write_link(dir, GPU_NODE, 0, err) : st;
}

enum status kfd_topology_write(const char * dir, const struct emu_gpu_model * gpu,
                               struct error * err) {
    static const struct value machine[] = {
        {"platform_oem", 1},
        {"platform_id", 1},
        {"platform_rev", 1},
    };
    enum status st = write_host(dir, err);
    st = st == ST_OK ? write_gpu(dir, gpu, err) : st;
    st = st == ST_OK ? WRITE(".", "system_properties", machine) : st;
    return st == ST_OK ? write_text(dir, ".", "generation_id", "1\n", err) : st;
}

// ---- reading ----

enum status kfd_topology_gpu(const char * dir, const struct emu_gpu_model ** out,
                             struct error * err) {
    static const char name[] = "gfx_target_version ";
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/nodes/%d/properties", dir, GPU_NODE);
    FILE * f = fopen(path, "re");
    if (!f) {
        return error_set(err, ST_NOT_FOUND, "HSA_MODEL_TOPOLOGY=%s: %s: %s", dir, path,
                         strerror(errno));
    }
    unsigned long version = 0;
    while (!version && fgets(line, sizeof line, f)) {
        if (!strncmp(line, name, strlen(name))) {
            version = strtoul(line + strlen(name), NULL, 10);
        }
    }
    fclose(f);
    *out = emu_gpu_model_by_version((uint32_t) version);
    return *out ? ST_OK
                : error_set(err, ST_UNSUPPORTED,
                            "%s: gfx_target_version %lu is no GPU that is emulated here", path,
                            version);
}
