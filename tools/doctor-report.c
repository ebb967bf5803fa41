// doctor-report: what makes a report fit to be pasted where everyone reads it. Home directories,
// the user's names and the host's are taken out of the finished text, whatever check they came
// from.
#include "doctor.h"

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool in_name(char c) {
    return isalnum((unsigned char) c) || c == '_' || c == '-';
}

// Puts `by` wherever `what` stands as a whole word, or as a whole directory.
static void hide(struct buf * text, const char * what, const char * by) {
    size_t n = what ? strlen(what) : 0;
    if (n == 0 || !text->data) {
        return;
    }
    struct buf out = {0};
    const char *begin = (char *) text->data, *p = begin;
    for (const char * found; (found = strstr(p, what));) {
        bool whole = (*what == '/' || found == begin || !in_name(found[-1])) && !in_name(found[n]);
        buf_append(&out, p, (size_t) (found - p));
        buf_append(&out, whole ? by : what, whole ? strlen(by) : n);
        p = found + n;
    }
    buf_append(&out, p, strlen(p));
    out.failed |= text->failed;
    buf_free(text);
    *text = out;
}

static void hide_home(struct buf * text, const char * home) {
    char path[512];
    size_t n = home ? strlen(home) : 0;
    while (n && home[n - 1] == '/') {
        n--;
    }
    if (n && n < sizeof path) { // "/" is a home too, and stands in every path
        snprintf(path, sizeof path, "%.*s", (int) n, home);
        hide(text, path, "~");
    }
}

// Names that are the system's tell nothing.
static void hide_name(struct buf * text, const char * name, const char * by) {
    if (name && strcmp(name, "root") && strcmp(name, "nobody") && strcmp(name, "localhost")) {
        hide(text, name, by);
    }
}

// Homes of others as well: under sudo the user's own is root's.
static void hide_homes_of_others(struct buf * text) {
    static const char base[] = "/home/";
    for (const char * p = (char *) text->data; p && (p = strstr(p, base));) {
        char path[256];
        p += sizeof base - 1;
        size_t at = (size_t) (p - (char *) text->data), n = strcspn(p, "/ \n:;,'\"`)");
        bool hidden = n == 4 && !strncmp(p, "USER", n);
        if (n && n < sizeof path - sizeof base && !hidden) {
            snprintf(path, sizeof path, "%s%.*s", base, (int) n, p);
            hide(text, path, "/home/USER");
            p = text->data ? (char *) text->data + at : NULL;
        }
    }
}

void hide_personal(struct buf * text) {
    static const char * const names[] = {"USER", "LOGNAME", "SUDO_USER"};
    const struct passwd * user = getpwuid(getuid());
    hide_home(text, getenv("HOME"));
    hide_home(text, user ? user->pw_dir : NULL);
    hide_homes_of_others(text);
    hide_name(text, user ? user->pw_name : NULL, "USER");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        hide_name(text, getenv(names[i]), "USER");
    }
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) == 0) {
        hide_name(text, host, "HOST");
        host[strcspn(host, ".")] = '\0';
        hide_name(text, host, "HOST");
    }
}
