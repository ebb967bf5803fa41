// names: strings from the environment and from programs that become names of directories and files,
// or arguments of a compiler. What is not exactly as it must be is refused.
#include "hip-impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

// Length of gfx[0-9][0-9a-f]{2,4} at the start of text; 0: it does not start so.
static size_t arch_length(const char * text) {
    if (strncmp(text, "gfx", 3) || text[3] < '0' || text[3] > '9') {
        return 0;
    }
    size_t n = 3;
    while (is_hex(text[n])) {
        n++;
    }
    return n >= 6 && n <= 8 ? n : 0;
}

// ":sramecc+:xnack-": what the device is set to. Our code runs either way.
static size_t features_length(const char * text) {
    static const char * const names[] = {":sramecc", ":xnack"};
    size_t n = 0;
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(names[i]);
        if (!strncmp(text + n, names[i], len) && (text[n + len] == '+' || text[n + len] == '-')) {
            n += len + 1;
        }
    }
    return n;
}

enum status hip_arch_parse(const char * text, char arch[HIP_ARCH_MAX], struct error * err) {
    const char * start = text + strspn(text, blanks);
    size_t n = arch_length(start), features = n ? features_length(start + n) : 0;
    const char * rest = start + n + features;
    if (!n || rest[strspn(rest, blanks)]) {
        return error_set(err, ST_INVALID,
                         "'%.60s' is no GPU architecture such as gfx90a or gfx1100", text);
    }
    snprintf(arch, HIP_ARCH_MAX, "%.*s", (int) n, start);
    return ST_OK;
}

// Length of 1 to 4 numbers with dots between them, at most max of them.
static size_t version_length(const char * text, int max) {
    size_t n = 0;
    for (int numbers = 0; numbers < max; numbers++) {
        size_t dot = numbers ? 1 : 0;
        if ((dot && text[n] != '.') || !isdigit((unsigned char) text[n + dot])) {
            break;
        }
        n += dot;
        while (isdigit((unsigned char) text[n])) {
            n++;
        }
    }
    return n < HIP_VERSION_MAX ? n : 0;
}

enum status hip_version_parse(const char * text, char version[HIP_VERSION_MAX],
                              struct error * err) {
    const char * start = text + strspn(text, blanks);
    size_t n = version_length(start, 4);
    if (!n || start[n + strspn(start + n, blanks)]) {
        return error_set(err, ST_INVALID, "'%.60s' is no version such as 5.2 or 6.4.1", text);
    }
    snprintf(version, HIP_VERSION_MAX, "%.*s", (int) n, start);
    return ST_OK;
}

enum status hip_name_check(const char * name, struct error * err) {
    size_t n = strlen(name);
    if (!n || n >= HIP_NAME_MAX || name[0] == '_' || name[0] == '-' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != n) {
        return error_set(err, ST_INVALID,
                         "'%.60s' is no name for a code object: letters, digits, _ and -, at most "
                         "%d of them",
                         name, HIP_NAME_MAX - 1);
    }
    return ST_OK;
}

// "  Name:                    gfx90a                             "
bool hip_arch_from_rocminfo(const char * text, char arch[HIP_ARCH_MAX]) {
    for (const char * line = text; *line;) {
        size_t n = strcspn(line, "\n");
        const char * p = line + strspn(line, " \t");
        if (!strncmp(p, "Name:", 5)) {
            p += 5 + strspn(p + 5, " \t");
            size_t length = arch_length(p);
            if (length && (p[length] == '\0' || strchr(" \t\r\n:", p[length]))) {
                snprintf(arch, HIP_ARCH_MAX, "%.*s", (int) length, p);
                return true;
            }
        }
        line += n + (line[n] == '\n');
    }
    return false;
}

// "Debian clang version 19.1.7"
bool hip_version_from_clang(const char * text, char version[HIP_VERSION_MAX]) {
    static const char word[] = "clang version ";
    const char * p = strstr(text, word);
    size_t n = p ? version_length(p + strlen(word), 1) : 0;
    if (n) {
        snprintf(version, HIP_VERSION_MAX, "%.*s", (int) n, p + strlen(word));
    }
    return n > 0;
}

// "HIP version: 5.2.21153-0"
bool hip_version_from_hipcc(const char * text, char version[HIP_VERSION_MAX]) {
    static const char * const words[] = {"HIP version:", "HIP_VERSION:"};
    for (size_t i = 0; i < 2; i++) {
        const char * p = strstr(text, words[i]);
        if (p) {
            p += strlen(words[i]);
            p += strspn(p, " \t");
            size_t n = version_length(p, 2);
            if (n && memchr(p, '.', n)) {
                snprintf(version, HIP_VERSION_MAX, "%.*s", (int) n, p);
                return true;
            }
        }
    }
    return false;
}
