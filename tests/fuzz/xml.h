// xml: is a text well-formed XML with the elements and attributes that our pictures have, and no
// others? Whatever names a file holds, they must end as text in it.
#pragma once

#include "base/plain.h"
#include "fuzz.h"

#include <ctype.h>
#include <stdio.h>

struct xml {
    const char *text, *at;
    char open[16][24];
    int depth;
};

_Noreturn static inline void xml_fail(const struct xml * x, const char * why) {
    fprintf(stderr, "no XML: %s at byte %zu: %.60s\n", why, (size_t) (x->at - x->text), x->at);
    abort();
}

static inline bool xml_eat(struct xml * x, const char * word) {
    size_t n = strlen(word);
    bool is = !strncmp(x->at, word, n);
    x->at += is ? n : 0;
    return is;
}

static inline void xml_name(struct xml * x, const char * const * known, char name[24]) {
    size_t n = strcspn(x->at, " \t\n=\"'<>/");
    if (n == 0 || n >= 24) {
        xml_fail(x, "a name");
    }
    memcpy(name, x->at, n);
    name[n] = '\0';
    while (*known && strcmp(*known, name)) {
        known++;
    }
    if (!*known) {
        xml_fail(x, "a name of no picture");
    }
    x->at += n;
}

// One character of text or of a value.
static inline void xml_character(struct xml * x) {
    if (*x->at == '&') {
        const char * end = x->at + 2 + strspn(x->at + 2, "0123456789");
        if (x->at[1] != '#' || end == x->at + 2 || *end != ';') {
            xml_fail(x, "a reference");
        }
        x->at = end + 1;
        return;
    }
    size_t n = plain_utf8(x->at);
    bool noncharacter =
        n == 3 && (!memcmp(x->at, "\xef\xbf\xbe", 3) || !memcmp(x->at, "\xef\xbf\xbf", 3));
    if (n == 0 || noncharacter || (iscntrl((unsigned char) *x->at) && *x->at != '\n')) {
        xml_fail(x, "a character");
    }
    x->at += n;
}

static inline void xml_attributes(struct xml * x) {
    static const char * const known[] = {
        "class",        "d",           "encoding", "fill",    "height", "id", "marker-end",
        "markerHeight", "markerWidth", "orient",   "refX",    "refY",   "rx", "stroke",
        "text-anchor",  "type",        "version",  "viewBox", "width",  "x",  "xml:space",
        "xmlns",        "y",           NULL};
    char name[24];
    while (xml_eat(x, " ")) {
        xml_name(x, known, name);
        if (!xml_eat(x, "=\"")) {
            xml_fail(x, "a value");
        }
        while (*x->at != '"') {
            if (*x->at == '<' || !*x->at) {
                xml_fail(x, "the end of a value");
            }
            xml_character(x);
        }
        x->at++;
    }
}

static inline void xml_tag(struct xml * x) {
    static const char * const known[] = {"defs", "marker", "path",  "rect", "style",
                                         "svg",  "text",   "title", NULL};
    char name[24];
    bool closes = xml_eat(x, "/");
    xml_name(x, known, name);
    if (closes) {
        if (x->depth == 0 || strcmp(x->open[--x->depth], name)) {
            xml_fail(x, "an end of nothing");
        }
    } else {
        xml_attributes(x);
        if (xml_eat(x, "/>")) {
            return;
        }
        if (x->depth == 16) {
            xml_fail(x, "elements within elements");
        }
        memcpy(x->open[x->depth++], name, sizeof name);
    }
    if (!xml_eat(x, ">")) {
        xml_fail(x, "the end of a tag");
    }
}

// A zero byte stands behind the text.
static inline void xml_check(const char * text, size_t size) {
    struct xml x = {.text = text, .at = text};
    if (strlen(text) != size || !xml_eat(&x, "<?xml")) {
        xml_fail(&x, "its beginning or its length");
    }
    xml_attributes(&x);
    if (!xml_eat(&x, "?>\n") || strncmp(x.at, "<svg ", 5)) {
        xml_fail(&x, "the element of all");
    }
    while (*x.at) {
        if (xml_eat(&x, "<")) {
            xml_tag(&x);
        } else {
            xml_character(&x);
        }
        if (x.depth == 0 && strcmp(x.at, "\n") != 0 && *x.at) {
            xml_fail(&x, "something behind it");
        }
    }
    if (x.depth) {
        xml_fail(&x, "its end");
    }
}
