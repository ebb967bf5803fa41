// quiet: see quiet.h. Both signals are sent to the thread that writes, so nothing of other threads
// is taken.
#include "quiet.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static const int ours[] = {SIGXFSZ, SIGPIPE};
enum { OURS = sizeof ours / sizeof ours[0] };

void quiet_begin(struct quiet * q) {
    sigset_t held;
    sigemptyset(&held);
    for (int i = 0; i < OURS; i++) {
        sigaddset(&held, ours[i]);
    }
    sigpending(&q->pending);
    pthread_sigmask(SIG_BLOCK, &held, &q->before);
}

void quiet_end(const struct quiet * q) {
    int code = errno;
    sigset_t now;
    sigpending(&now);
    for (int i = 0; i < OURS; i++) {
        if (sigismember(&now, ours[i]) == 1 && sigismember(&q->pending, ours[i]) != 1) {
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, ours[i]);
            while (sigtimedwait(&one, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {
            }
        }
    }
    pthread_sigmask(SIG_SETMASK, &q->before, NULL);
    errno = code;
}
