// progress-line: see progress-line.h.
#include "progress-line.h"

#include <stdarg.h>
#include <unistd.h>

static const double line_each_s = 60;

void progress_line_begin(struct progress_line * p, FILE * to, const char * program, double now) {
    *p = (struct progress_line){
        .to = to, .program = program, .drawn = isatty(fileno(to)) == 1, .told = now};
    pthread_mutex_init(&p->lock, NULL);
}

void progress_line_tell(struct progress_line * p, double now, const char * fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_mutex_lock(&p->lock);
    bool due = now - p->told >= line_each_s;
    p->told = due ? now : p->told;
    if (p->drawn) {
        fprintf(p->to, "\r%s \033[K", text);
    } else if (due) {
        fprintf(p->to, "%s: %s\n", p->program, text);
    }
    if (p->drawn || due) {
        fflush(p->to);
    }
    pthread_mutex_unlock(&p->lock);
}

void progress_line_clear(struct progress_line * p) {
    if (p->drawn) {
        fprintf(p->to, "\r\033[K");
    }
}

void progress_line_end(struct progress_line * p) {
    progress_line_clear(p);
    pthread_mutex_destroy(&p->lock);
}
