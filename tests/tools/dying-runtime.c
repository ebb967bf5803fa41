// A library that dies while it is opened, as DIE says: what real runtimes do on machines that they
// do not expect. With another value it opens, and lacks everything.
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void die(void) {
    const char * how = getenv("DIE");
    if (how && !strcmp(how, "abort")) {
        abort();
    }
    if (how && !strcmp(how, "exit")) {
        _Exit(3);
    }
}
