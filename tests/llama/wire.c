// wire: stands between a client and a server on this machine and counts what goes over the wire.
//
//   wire --free        prints a port of the loopback that nobody listens on
//   wire <port>        listens on a port of its own, prints it, and passes on every connection to
//                      <port>; at SIGTERM prints bytes to the server, bytes from it, and how often
//                      it was the server's turn to answer
//
// Nothing is looked into or changed. A connection has a thread for each direction, so that neither
// waits for the other.
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TO_SERVER, FROM_SERVER, DIRECTIONS };
enum { PART = 1 << 16, PATIENCE = 600 }; // tenths of a second for a server that is starting

struct connection {
    int client, server;
    atomic_int last; // the direction in which something went last
    atomic_int open; // directions that are
};

struct way {
    struct connection * of;
    int direction;
};

static atomic_uint_least64_t bytes[DIRECTIONS], turns;
static in_port_t server_port;

static struct sockaddr_in loopback(in_port_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

// A socket that listens on a port of the system's choice, or -1.
static int listen_anywhere(in_port_t * port) {
    struct sockaddr_in a = loopback(0);
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *) &a, sizeof a) != 0 || listen(s, 8) != 0 ||
        getsockname(s, (struct sockaddr *) &a, &size) != 0) {
        perror("wire: no port to listen on");
        return -1;
    }
    *port = ntohs(a.sin_port);
    return s;
}

static int reach_server(void) {
    for (int i = 0; i < PATIENCE; i++) {
        struct sockaddr_in a = loopback(server_port);
        int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s >= 0 && connect(s, (struct sockaddr *) &a, sizeof a) == 0) {
            return s;
        }
        if (s >= 0) {
            close(s);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    fprintf(stderr, "wire: nobody listens on port %u\n", (unsigned) server_port);
    return -1;
}

static bool send_all(int s, const char * data, size_t n) {
    while (n > 0) {
        ssize_t sent = send(s, data, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        n -= (size_t) sent;
    }
    return true;
}

static void * pass_on(void * argument) {
    struct way w = *(struct way *) argument;
    struct connection * c = w.of;
    int from = w.direction == TO_SERVER ? c->client : c->server;
    int to = w.direction == TO_SERVER ? c->server : c->client;
    char part[PART];
    free(argument);
    for (ssize_t n; (n = recv(from, part, sizeof part, 0)) > 0;) {
        if (atomic_exchange(&c->last, w.direction) == TO_SERVER && w.direction == FROM_SERVER) {
            atomic_fetch_add(&turns, 1);
        }
        atomic_fetch_add(&bytes[w.direction], (uint64_t) n);
        if (!send_all(to, part, (size_t) n)) {
            break;
        }
    }
    shutdown(from, SHUT_RD);
    shutdown(to, SHUT_WR);
    if (atomic_fetch_sub(&c->open, 1) == 1) {
        close(c->client);
        close(c->server);
        free(c);
    }
    return NULL;
}

static bool start(struct connection * c, int direction) {
    pthread_t thread;
    struct way * w = malloc(sizeof *w);
    if (w) {
        *w = (struct way){c, direction};
        if (pthread_create(&thread, NULL, pass_on, w) == 0) {
            pthread_detach(thread);
            return true;
        }
    }
    free(w);
    return false;
}

static void * serve(void * argument) {
    int listening = *(int *) argument, one = 1;
    for (;;) {
        struct connection * c = calloc(1, sizeof *c);
        if (!c || (c->client = accept(listening, NULL, NULL)) < 0 ||
            (c->server = reach_server()) < 0) {
            perror("wire: a connection fails");
            exit(1);
        }
        setsockopt(c->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(c->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        atomic_init(&c->last, FROM_SERVER);
        atomic_init(&c->open, DIRECTIONS);
        if (!start(c, TO_SERVER) || !start(c, FROM_SERVER)) {
            fputs("wire: no thread for a connection\n", stderr);
            exit(1);
        }
    }
}

int main(int argc, char ** argv) {
    char * end = NULL;
    long target = argc == 2 ? strtol(argv[1], &end, 10) : 0;
    bool free_port = argc == 2 && strcmp(argv[1], "--free") == 0;
    if (!free_port && (target < 1 || target > 65535 || *end)) {
        fputs("usage: wire --free | wire <port of the server>\n", stderr);
        return 2;
    }
    in_port_t port;
    int listening = listen_anywhere(&port);
    if (listening < 0) {
        return 1;
    }
    printf("%u\n", (unsigned) port);
    fflush(stdout);
    if (free_port) {
        return 0;
    }
    server_port = (in_port_t) target;
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    pthread_t thread;
    int signal_number;
    if (pthread_create(&thread, NULL, serve, &listening) != 0 ||
        sigwait(&ends, &signal_number) != 0) {
        fputs("wire: cannot start\n", stderr);
        return 1;
    }
    printf("%" PRIuLEAST64 " %" PRIuLEAST64 " %" PRIuLEAST64 "\n", atomic_load(&bytes[TO_SERVER]),
           atomic_load(&bytes[FROM_SERVER]), atomic_load(&turns));
    return 0;
}
