// asm-text: what the assembler makes of a program in text. Reads the file, prints the program after
// each pass that its first line asks for ("// passes: schedule bundles"), and the error where there
// is one. Expected output lies beside each file of text/; text.sh compares.
//
//     asm-text FILE.s
//     asm-text --passes     their names
#include "aie/asm/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20 };

static bool wanted[ASM_PASS_COUNT];

static void print(void * user, enum asm_pass pass, const char * text) {
    (void) user;
    if (wanted[pass]) {
        printf("-- %s\n%s", asm_pass_name(pass), text);
    }
}

// The names behind "// passes:"; false when one is none.
static bool read_wishes(const char * text) {
    static const char head[] = "// passes:";
    char line[200] = "";
    size_t length = strcspn(text, "\n");
    if (strncmp(text, head, strlen(head)) != 0 || length >= sizeof line) {
        return false;
    }
    memcpy(line, text, length);
    for (char * word = strtok(line + strlen(head), " "); word; word = strtok(NULL, " ")) {
        enum asm_pass pass;
        if (!asm_pass_parse(word, &pass)) {
            return false;
        }
        wanted[pass] = true;
    }
    return true;
}

int main(int argc, char ** argv) {
    struct error err = {0};
    uint8_t * text = NULL;
    size_t size = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: asm-text FILE.s | --passes\n");
        return 2;
    }
    if (!strcmp(argv[1], "--passes")) {
        for (int i = 0; i < ASM_PASS_COUNT; i++) {
            printf("%s\n", asm_pass_name((enum asm_pass) i));
        }
        return 0;
    }
    if (file_read(argv[1], MAX_BYTES - 1, &text, &size, &err) != ST_OK) {
        fprintf(stderr, "asm-text: %s\n", err.text);
        return 1;
    }
    char * program = calloc(1, size + 1);
    if (!program) {
        return 1;
    }
    memcpy(program, text, size);
    free(text);
    if (!read_wishes(program)) {
        fprintf(stderr, "asm-text: %s does not begin with \"// passes:\" and their names\n",
                argv[1]);
        return 1;
    }
    const struct asm_listener to = {print, NULL};
    struct asm_program * p = NULL;
    struct asm_code code = {0};
    asm_listen(&to);
    enum status st = asm_read(program, &p, &err);
    if (st == ST_OK) {
        st = asm_finish(p, &code, &err);
    }
    if (st == ST_OK) {
        printf("-- %d bundles\n", code.stats.bundles);
    } else {
        printf("-- %s\n", err.text);
    }
    asm_listen(NULL);
    asm_free(p);
    free(code.bytes);
    free(program);
    return 0;
}
