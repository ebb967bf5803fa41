// inspect: shows what is in a PDI or an instruction stream, one line a command, with registers by
// name and values in words. It tells the two apart by their bytes, and what it cannot name it shows
// as numbers; a broken file is shown up to the place that is broken.
#include "inspect.h"

#include "aie/target/target.h"
#include "base/plain.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t) 64 << 20) // the device heap that such files go to

struct inspect {
    bool code;  // disassemble
    bool stats; // count the programs' bundles instead of listing commands
    struct stats programs;
    bool arch_known; // told by an option, or seen by the bundles
    enum aie_arch arch;
    struct colours c;
    size_t n_commands;
    bool no_memory; // something was not shown
};

// All of it or nothing: a line that ends early could be believed.
static void print_buf(struct inspect * in, struct buf * b) {
    in->no_memory |= b->failed;
    if (!b->failed && b->size) {
        fwrite(b->data, 1, b->size, stdout);
    }
    buf_free(b);
}

// Names of files, and of parts that files name.
static void print_plain(const char * name) {
    for (size_t n; *name; name += n) {
        bool shown = plain_character(name, &n);
        fwrite(shown ? name : "?", 1, shown ? n : 1, stdout);
    }
}

static void print_head(const struct inspect * in, const char * name, const char * fmt, ...)
    BASE_PRINTF(3, 4);
static void print_head(const struct inspect * in, const char * name, const char * fmt, ...) {
    printf("%s", in->c.head);
    print_plain(name);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("%s\n", in->c.off);
}

// ---- one command ----

static void print_data(const struct image_command * cmd, struct buf * b) {
    enum { WORDS_A_LINE = 8, MAX_LINES = 4 };
    for (uint32_t i = 0; i < cmd->n_words; i++) {
        if (i == WORDS_A_LINE * MAX_LINES) {
            buf_printf(b, "\n    ... %u more words", cmd->n_words - i);
            break;
        }
        buf_printf(b, i % WORDS_A_LINE ? " %08x" : "\n    %08x",
                   load_u32(cmd->data + 4 * (size_t) i));
    }
    buf_printf(b, "\n");
}

static void print_code(const struct inspect * in, uint32_t address, const uint8_t * code,
                       size_t size, struct buf * b) {
    if (in->arch_known) {
        buf_printf(b, "    // %s\n", kernel_arch_name(in->arch));
        code_print(in->arch, address, code, size, b);
    } else {
        buf_printf(b, "    // %zu bytes of no instruction set that can be disassembled here\n",
                   size);
    }
}

// The ports of a switch that are on, a line each.
static void print_ports(const struct image_command * cmd, struct buf * b) {
    enum tile_kind tile = tile_kind_of((int) bits(cmd->addr, 24, 20));
    for (uint32_t i = 0; i < cmd->n_words; i++) {
        uint32_t value = load_u32(cmd->data + 4 * (size_t) i);
        struct reg reg;
        if (!value || !reg_find(tile, bits(cmd->addr, 19, 0) + 4 * i, &reg)) {
            continue;
        }
        buf_printf(b, "    ");
        if (reg.class == REG_SLAVE) { // a master's value has its name
            reg_print(&reg, b);
            buf_printf(b, ": ");
        }
        reg_print_value(&reg, UINT32_MAX, value, b);
        buf_printf(b, "\n");
    }
}

static void print_block(struct inspect * in, const struct image_command * cmd,
                        const struct reg * reg, struct buf * b) {
    buf_printf(b, ", %u words", cmd->n_words + cmd->missing);
    if (cmd->missing) {
        buf_printf(b, ", the last %u behind the end of the file", cmd->missing);
    }
    if (reg && reg->class == REG_BD && reg->word == 0 &&
        cmd->n_words == (uint32_t) bd_words(reg->tile)) {
        uint32_t words[8] = {0};
        for (uint32_t i = 0; i < cmd->n_words; i++) {
            words[i] = load_u32(cmd->data + 4 * (size_t) i);
        }
        buf_printf(b, ": ");
        bd_print(reg->tile, words, b);
        buf_printf(b, "\n");
    } else if (reg && (reg->class == REG_MASTER || reg->class == REG_SLAVE)) {
        buf_printf(b, ": ports that are on\n");
        print_ports(cmd, b);
    } else if (reg && reg->class == REG_PROGRAM) {
        size_t size = (size_t) cmd->n_words * 4;
        buf_printf(b, "\n");
        if (in->code) {
            print_code(in, reg->word, cmd->data, size, b);
        }
    } else {
        print_data(cmd, b);
    }
}

static void print_write(struct inspect * in, const struct image_command * cmd, struct buf * b) {
    int col = (int) bits(cmd->addr, 31, 25), row = (int) bits(cmd->addr, 24, 20);
    enum tile_kind tile = tile_kind_of(row);
    static const char * const verbs[] = {[IMAGE_WRITE] = "write",
                                         [IMAGE_MASK_WRITE] = "mask",
                                         [IMAGE_BLOCK_WRITE] = "block",
                                         [IMAGE_PATCH] = "patch"};
    struct reg reg;
    bool known = reg_find(tile, bits(cmd->addr, 19, 0), &reg);
    buf_printf(b, "(%d,%d) %-4s  %-5s  %s", col, row, tile_kind_names[tile], verbs[cmd->op],
               in->c.name);
    if (known) {
        reg_print(&reg, b);
    } else {
        buf_printf(b, "0x%05x", bits(cmd->addr, 19, 0));
    }
    buf_printf(b, "%s", in->c.off);

    if (cmd->op == IMAGE_BLOCK_WRITE) {
        print_block(in, cmd, known ? &reg : NULL, b);
        return;
    }
    if (cmd->op == IMAGE_PATCH) {
        buf_printf(b, ": address of operand %d + %u bytes\n", cmd->operand, cmd->byte_offset);
        return;
    }
    uint32_t mask = cmd->op == IMAGE_WRITE ? UINT32_MAX : cmd->mask;
    buf_printf(b, " = 0x%x", cmd->value);
    if (cmd->op == IMAGE_MASK_WRITE) {
        buf_printf(b, " under 0x%x", mask);
    }
    struct buf words = {0};
    if (known && mask) {
        reg_print_value(&reg, mask, cmd->value, &words);
    }
    if (words.size) {
        buf_printf(b, ": %s", (const char *) words.data);
    }
    b->failed |= words.failed;
    buf_free(&words);
    buf_printf(b, mask ? "\n" : ": changes nothing\n");
}

static bool collect_program(void * user, const struct image_command * cmd) {
    struct inspect * in = user;
    int col = (int) bits(cmd->addr, 31, 25), row = (int) bits(cmd->addr, 24, 20);
    struct reg reg;
    if (cmd->op == IMAGE_BLOCK_WRITE && reg_find(tile_kind_of(row), bits(cmd->addr, 19, 0), &reg) &&
        reg.class == REG_PROGRAM) {
        stats_add(&in->programs, col, row, reg.word, cmd->data, (size_t) cmd->n_words * 4);
    }
    in->n_commands++;
    return true;
}

static bool print_command(void * user, const struct image_command * cmd) {
    struct inspect * in = user;
    struct buf b = {0};
    buf_printf(&b, "%s0x%05x%s  ", in->c.dim, cmd->offset, in->c.off);
    if (cmd->op == IMAGE_NOP) {
        buf_printf(&b, "             nop, %u words\n", cmd->n_words + 1);
    } else if (cmd->op == IMAGE_WAIT) {
        buf_printf(&b, "(%d,%d) %-4s  wait   %s%s%d%s: its token\n", cmd->col, cmd->row,
                   tile_kind_names[tile_kind_of(cmd->row)], in->c.name,
                   cmd->direction ? "MM2S" : "S2MM", cmd->channel, in->c.off);
    } else {
        print_write(in, cmd, &b);
    }
    print_buf(in, &b);
    in->n_commands++;
    return true;
}

// ---- files ----

static bool is_pdi(const uint8_t * data, size_t size) {
    return image_is_pdi(data, size);
}

static bool is_txn(const uint8_t * data, size_t size) {
    return image_is_txn(data, size);
}

static void print_pdi_header(const struct inspect * in, const char * path, const uint8_t * data,
                             size_t size) {
    print_head(in, path, ": PDI, %zu bytes", size);
    if (size < 0x164) {
        return;
    }
    char image[17] = {0};
    for (int i = 0; i < 16; i++) { // the name is from outside
        uint8_t ch = data[0xa0 + i];
        image[i] = ch == 0 || (ch >= 0x20 && ch < 0x7f) ? (char) ch : '?';
    }
    printf("  id code 0x%08x, image \"%s\" with id 0x%08x\n", load_u32(data + 0x28), image,
           load_u32(data + 0xb0));
    printf("  partition of %u words (%u with padding) at 0x%x\n", load_u32(data + 0xd4),
           load_u32(data + 0xd0), load_u32(data + 0xf0) * 4);
    struct pdi_packing packing;
    if (pdi_packing(data, size, &packing)) {
        printf("  packed: %zu bytes of commands, %zu bytes of data behind them\n", packing.commands,
               packing.data + packing.missing);
    }
    if (pdi_packing(data, size, &packing) && packing.missing) {
        printf("  the file ends %zu bytes before its data, as AMD's packer leaves it: the last "
               "words are not known\n",
               packing.missing);
    }
}

static void print_txn_header(struct inspect * in, const char * path, const uint8_t * data,
                             size_t size) {
    print_head(in, path, ": TXN, %zu bytes", size);
    uint32_t w = load_u32(data), shape = load_u32(data + 4);
    unsigned generation = bits(w, 23, 16);
    const struct aie_target * target = aie_target_of_generation(generation);
    printf("  version %u.%u, device generation %u (%s), %u rows, %u memory rows, %u columns\n",
           w & 0xff, bits(w, 15, 8), generation, target ? target->name : "unknown", w >> 24,
           bits(shape, 15, 8), shape & 0xff);
    printf("  %u operations, %u bytes\n", load_u32(data + 8), load_u32(data + 12));
}

typedef enum status (*read_fn)(const uint8_t *, size_t, image_visit, void *, struct error *);

// The commands of a PDI or TXN, twice: first for the programs, by which their instruction set is
// told, then to show them.
static enum status show_commands(struct inspect * in, read_fn read, const uint8_t * data,
                                 size_t size, struct error * err) {
    struct inspect first = {0};
    enum status st = read(data, size, collect_program, &first, err); // broken: as far as it goes
    bool told = in->arch_known;
    in->no_memory |= first.programs.no_memory;
    struct buf b = {0};
    if (!told) {
        in->arch_known = code_find_arch(&first.programs, &in->arch, &b);
        print_buf(in, &b);
    }
    if (in->stats) {
        stats_print(&first.programs, in->arch_known, in->arch, &b);
        print_buf(in, &b);
        in->n_commands += first.n_commands;
    } else {
        st = read(data, size, print_command, in, err);
    }
    stats_free(&first.programs);
    in->arch_known = told; // the next part of a container may be of another kind
    return st;
}

static enum status show_program(struct inspect * in, const struct image_part * part,
                                struct error * err) {
    struct stats s = {0};
    stats_add(&s, 0, 0, part->address, part->data, part->size);
    in->no_memory |= s.no_memory;
    if (s.failed) {
        stats_free(&s);
        return error_set(err, ST_CORRUPT, "%s: %zu bytes at 0x%x are no program memory of a core",
                         part->name, part->size, part->address);
    }
    bool told = in->arch_known;
    struct buf b = {0};
    if (!told) {
        in->arch_known = code_find_arch(&s, &in->arch, &b);
    }
    if (in->stats) {
        stats_print(&s, in->arch_known, in->arch, &b);
    } else if (in->code) {
        print_code(in, part->address, part->data, part->size, &b);
    }
    print_buf(in, &b);
    stats_free(&s);
    in->arch_known = told;
    return ST_OK;
}

// ---- containers ----

struct container {
    struct inspect * in;
    enum status st;
    struct error * err;
};

static bool show_part(void * user, const struct image_part * part) {
    struct container * c = user;
    switch (part->kind) {
    case IMAGE_PART_PDI:
        print_pdi_header(c->in, part->name, part->data, part->size);
        c->st = show_commands(c->in, pdi_read, part->data, part->size, c->err);
        break;
    case IMAGE_PART_TXN:
        print_txn_header(c->in, part->name, part->data, part->size);
        c->st = show_commands(c->in, txn_read, part->data, part->size, c->err);
        break;
    case IMAGE_PART_PROGRAM:
        print_head(c->in, part->name, ": program of a core, %zu bytes at 0x%x", part->size,
                   part->address);
        c->st = show_program(c->in, part, c->err);
        break;
    default:
        print_plain(*part->name ? part->name : "a part without a name");
        printf(": %zu bytes\n", part->size);
        return true;
    }
    if (c->st != ST_OK) {
        error_prefix(c->err, c->st, "%s", part->name);
    }
    return c->st == ST_OK;
}

static enum status show_container(struct inspect * in, const char * path, const uint8_t * data,
                                  size_t size, struct error * err) {
    bool elf = image_is_elf(data, size);
    struct container c = {in, ST_OK, err};
    print_head(in, path, ": %s, %zu bytes", elf ? "ELF" : "xclbin", size);
    enum status st = (elf ? elf_read : xclbin_read)(data, size, show_part, &c, err);
    return st != ST_OK ? st : c.st;
}

static int inspect_file(struct inspect * in, const char * path) {
    uint8_t * data;
    size_t size;
    struct error err = {0};
    enum status st = file_read(path, MAX_FILE_BYTES, &data, &size, &err);
    if (st != ST_OK) {
        fprintf(stderr, "ggml-hsa inspect: %s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    if (is_pdi(data, size)) {
        print_pdi_header(in, path, data, size);
        st = show_commands(in, pdi_read, data, size, &err);
    } else if (is_txn(data, size)) {
        print_txn_header(in, path, data, size);
        st = show_commands(in, txn_read, data, size, &err);
    } else if (image_is_xclbin(data, size) || image_is_elf(data, size)) {
        st = show_container(in, path, data, size, &err);
    } else {
        st = error_set(&err, ST_INVALID,
                       "neither a PDI (no \"IDPP\" at offset 0x38) nor a TXN (no version at "
                       "offset 0x0) nor an xclbin nor an ELF, %zu bytes",
                       size);
    }
    free(data);
    if (st == ST_OK && in->no_memory) {
        st = error_set(&err, ST_NO_MEMORY, "no memory to show all of it");
    }
    if (st != ST_OK) {
        fflush(stdout); // the message comes after what could be read
        error_prefix(&err, st, "%.200s", path);
        fprintf(stderr, "ggml-hsa inspect: %s\n", err.text);
        return EXIT_BAD_INPUT;
    }
    if (in->n_commands) { // none in the program of a core
        printf("%zu commands\n", in->n_commands);
    }
    return EXIT_OK;
}

// ---- as a picture ----

static enum status view_file(struct view * v, const char * path, bool stream, struct error * err) {
    uint8_t * data;
    size_t size;
    enum status st = file_read(path, MAX_FILE_BYTES, &data, &size, err);
    if (st != ST_OK) {
        return st;
    }
    if (!stream && is_pdi(data, size)) {
        st = pdi_read(data, size, view_apply, v, err);
    } else if (stream && is_txn(data, size)) {
        st = txn_read(data, size, view_apply, v, err);
    } else {
        st = error_set(err, ST_INVALID, "%s: the picture wants FILE.pdi [INSTS.bin], in this order",
                       stream ? "no TXN (version at offset 0x0)" : "no PDI (\"IDPP\" at 0x38)");
    }
    free(data);
    return st == ST_OK ? st : error_prefix(err, st, "%s", path);
}

static const char * last_part(const char * path) {
    const char * slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum status draw_array(const char * pdi, const char * stream, struct buf * b,
                              struct error * err) {
    struct view * v = calloc(1, sizeof *v);
    enum status st = v ? view_file(v, pdi, false, err)
                       : error_set(err, ST_NO_MEMORY, "no memory for the array's registers");
    if (st == ST_OK && stream) {
        st = view_file(v, stream, true, err);
    }
    if (st == ST_OK) {
        char title[512];
        snprintf(title, sizeof title, "%s%s%s", last_part(pdi), stream ? " + " : "",
                 stream ? last_part(stream) : "");
        svg_print(v, title, b);
    }
    free(v);
    return st;
}

struct range {
    double from, to; // microseconds
    bool asked, heat;
};

static bool is_json(const char * path) {
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".json");
}

// Nothing is printed of a broken file: half a picture looks like a whole one.
static int draw_files(const char * first, const char * second, const struct range * range) {
    struct error err = {0};
    struct buf b = {0};
    bool trace = is_json(first);
    if (trace && second) {
        return tool_usage(&inspect_subcommand, "a trace stands alone, '%s' is a second", second);
    }
    if (range->asked && !trace) {
        return tool_usage(&inspect_subcommand, "--from and --to are for a trace (FILE.json)");
    }
    if (range->heat && !trace) {
        return tool_usage(&inspect_subcommand, "--heat is for a trace (FILE.json)");
    }
    enum status st = range->heat ? heat_print(first, range->from, range->to, &b, &err)
                     : trace     ? timeline_print(first, range->from, range->to, &b, &err)
                                 : draw_array(first, second, &b, &err);
    if (st == ST_OK && b.failed) {
        st = error_set(&err, ST_NO_MEMORY, "no memory for the picture");
    }
    if (st == ST_OK) {
        fwrite(b.data, 1, b.size, stdout);
    } else {
        fprintf(stderr, "ggml-hsa inspect: %s\n", err.text);
    }
    buf_free(&b);
    return st == ST_OK ? EXIT_OK : EXIT_BAD_INPUT;
}

static int run(int argc, char ** argv) {
    struct inspect in = {.code = true, .c = tool_colours()};
    const char *path = NULL, *second = NULL;
    struct range range = {.from = -1};
    bool svg = false;
    if (passes_asked(argc, argv)) {
        return passes_run(argc, argv);
    }
    if (verify_asked(argc, argv)) {
        return verify_run(argc, argv);
    }
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--no-code")) {
            in.code = false;
        } else if (!strcmp(argv[i], "--stats")) {
            in.stats = true;
        } else if (!strcmp(argv[i], "--svg")) {
            svg = true;
        } else if (!strcmp(argv[i], "--heat")) {
            svg = range.heat = true;
        } else if (!strcmp(argv[i], "--from") || !strcmp(argv[i], "--to")) {
            char * end = NULL;
            double v = i + 1 < argc ? strtod(argv[i + 1], &end) : -1;
            if (!end || end == argv[i + 1] || *end || !(v >= 0 && v < 1e12)) {
                return tool_usage(&inspect_subcommand, "%s wants a time in microseconds", argv[i]);
            }
            *(argv[i][2] == 'f' ? &range.from : &range.to) = v;
            range.asked = true;
            i++;
        } else if (!strcmp(argv[i], "--arch")) {
            if (i + 1 == argc || !kernel_arch_parse(argv[i + 1], &in.arch)) {
                return tool_usage(&inspect_subcommand, "--arch wants aie2 or aie2p");
            }
            in.arch_known = true;
            i++;
        } else if (argv[i][0] == '-') {
            return tool_usage(&inspect_subcommand, "no option '%s'", argv[i]);
        } else if (path && second) {
            return tool_usage(&inspect_subcommand, "'%s' is one file too many", argv[i]);
        } else {
            *(path ? &second : &path) = argv[i];
        }
    }
    if (svg && in.stats) {
        return tool_usage(&inspect_subcommand, "--svg and --stats are two things");
    }
    if (range.asked && !svg) {
        return tool_usage(&inspect_subcommand, "--from and --to are for --svg");
    }
    if (path && svg) {
        return draw_files(path, second, &range);
    }
    if (second) {
        return tool_usage(&inspect_subcommand, "one file at a time, '%s' is a second", second);
    }
    return path ? inspect_file(&in, path) : tool_usage(&inspect_subcommand, "a file is missing");
}

const struct subcommand inspect_subcommand = {
    .name = "inspect",
    .summary = "show what is in a .pdi, _insts.bin, .xclbin or .elf file",
    // clang-format off
    .help =
        "usage: ggml-hsa inspect FILE [--no-code] [--stats] [--arch aie2|aie2p]\n"
        "       ggml-hsa inspect --svg FILE.pdi [INSTS.bin] > array.svg\n"
        "       ggml-hsa inspect --svg TRACE.json [--from US] [--to US] > timeline.svg\n"
        "       ggml-hsa inspect --heat TRACE.json [--from US] [--to US] > heat.svg\n"
        "       ggml-hsa inspect --passes OP TYPE SHAPE [--pass NAME] [--arch ARCH]\n"
        "       ggml-hsa inspect --verify FILE.pdi [INSTS.bin] [--operands in:BYTES,...,out:BYTES]\n"
        "                        [--arch aie2|aie2p] [--columns N]\n\n"
        "Shows a PDI (configuration of the array) or a TXN (instruction stream of one dispatch),\n"
        "one line a command: offset in the file, tile (column,row), command, register, value.\n"
        "Of an xclbin the PDIs are shown so, of an ELF the program of a core, or the streams and\n"
        "PDIs of control code (.ctrltext).\n\n"
        "  --no-code    do not disassemble core programs\n"
        "  --stats      only what the core programs fill: bundles, and for each zero-overhead loop\n"
        "               bundles (cycles) a turn, instructions by slot, and the slot that bounds it\n"
        "  --arch ARCH  instruction set of the programs; if not given, the one in which all of\n"
        "               their bundles decode, and a line says what that was seen by\n"
        "  --svg        a picture of the array: tiles, streams, memories with their banks, buffer\n"
        "               descriptors and locks, as the PDI, then the instruction stream, leave them;\n"
        "               of a file of GGML_HSA_TRACE: who did what when\n"
        "  --heat       of such a file: how much of the time of dispatches each tile worked\n"
        "  --from, --to US  the part of such a file between two times in microseconds; else all of it\n"
        "               but for what the host did before the first dispatch\n"
        "  --passes     compiles the kernel of OP (ADD, SOFT_MAX, ...) on TYPE (f32, bf16, ...) and SHAPE\n"
        "               (1024x16, of MUL_MAT m,n,k) and prints its cores' programs after each pass\n"
        "               of the assembler: built, dependences, schedule, loops, bundles, bytes\n"
        "  --pass NAME  only after this pass\n"
        "  --verify     whether the two may go to hardware: every write, transfer and wait is held\n"
        "               against a model of the array; says the first thing that is wrong. A PDI alone\n"
        "               is looked at as far as that goes without a stream\n"
        "  --operands   bytes of the operands and whether the kernel reads them (in), writes them\n"
        "               (out) or both, in the order of its dispatch\n"
        "  --columns N  of the partition; if not given, as many as the architecture has\n\n"
        "exit status: 0 shown or passed, 1 the file is broken, refused or not of these kinds, 2 wrong usage\n",
    // clang-format on
    .run = run,
};
