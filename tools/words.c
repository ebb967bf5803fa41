// words: "did you mean" for subcommands and options. The words that are known come from the help
// text that people read, so that the two cannot differ, and a tool says of a new option as much as
// of an old one.
#include "words.h"

#include <stdio.h>
#include <string.h>

enum { MAX_WORD = 47, FAR = 100 };

static int least(int a, int b) {
    return a < b ? a : b;
}

int words_distance(const char * a, size_t n, const char * b, size_t m) {
    int row[3][MAX_WORD + 1];
    if (n > MAX_WORD || m > MAX_WORD) {
        return FAR;
    }
    for (size_t k = 0; k <= m; k++) {
        row[0][k] = (int) k;
    }
    for (size_t i = 1; i <= n; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = (int) i;
        for (size_t k = 1; k <= m; k++) {
            int change = before[k - 1] + (a[i - 1] != b[k - 1]);
            now[k] = least(change, 1 + least(before[k], now[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                now[k] = least(now[k], 1 + earlier[k - 2]);
            }
        }
    }
    return row[n % 3][m];
}

// Takes a word into the best so far when it is nearer; what is no resemblance is far away.
static void consider(const char * asked, const char * word, size_t m, struct nearest * best) {
    size_t n = strlen(asked);
    if (n == 0 || m == 0) {
        return;
    }
    bool begins = m > n && n >= 3 && !strncmp(word, asked, n);
    int far = begins ? 1 : words_distance(asked, n, word, m);
    int most = n <= 4 ? 1 : n <= 7 ? 2 : 3;
    if (far <= most && (!best->text[0] || far < best->far)) {
        best->far = far;
        snprintf(best->text, sizeof best->text, "%.*s", (int) m, word);
    }
}

void words_consider(const char * asked, const char * word, struct nearest * best) {
    consider(asked, word, strlen(word), best);
}

// The next "--option" of a help text at or behind p; its length, or 0.
static size_t next_option(const char ** p) {
    while ((*p = strstr(*p, "--"))) {
        size_t n = 2 + strspn(*p + 2, "abcdefghijklmnopqrstuvwxyz0123456789-");
        if (n > 2) {
            return n;
        }
        *p += n;
    }
    return 0;
}

bool words_know_option(const char * help, const char * option, struct nearest * best) {
    size_t n;
    *best = (struct nearest){0};
    for (const char * p = help; (n = next_option(&p)); p += n) {
        if (strlen(option) == n && !memcmp(option, p, n)) {
            return true;
        }
        consider(option, p, n, best);
    }
    return false;
}

const char * words_hint(const struct nearest * best, char text[WORDS_HINT]) {
    text[0] = '\0';
    if (best->text[0]) {
        snprintf(text, WORDS_HINT, "; did you mean '%s'?", best->text);
    }
    return text;
}
