// test-rpc: our device behind ggml's RPC server, on the loopback interface. Tensors then lie in our
// buffers without any help from our own allocation rules, odd lengths included.
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"

static pid_t server;
static ggml_backend_dev_t dev;

static int free_port(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *) &addr, size) == 0 &&
        getsockname(fd, (struct sockaddr *) &addr, &size) == 0) {
        port = ntohs(addr.sin_port);
    }
    close(fd);
    return port;
}

static bool answers(int port) {
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t) port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool ok = connect(fd, (struct sockaddr *) &addr, sizeof addr) == 0;
    close(fd);
    return ok;
}

static int setup(void ** state) {
    (void) state;
    char port[16], endpoint[32];
    int number = free_port();
    snprintf(port, sizeof port, "%d", number);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", number);
    server = fork();
    if (server == 0) {
        setenv("GGML_HSA_EMULATE", "aie2", 1);
        setenv("GGML_BACKEND_PATH", PLUGIN, 1);
        execl(RPC_SERVER, RPC_SERVER, "-H", "127.0.0.1", "-p", port, "-d", "HSA0", (char *) NULL);
        _exit(127);
    }
    for (int i = 0; i < 100 && !answers(number); i++) {
        usleep(100000);
    }
    ggml_backend_reg_t rpc = ggml_backend_load(RPC_BACKEND);
    void * address =
        rpc ? ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server") : NULL;
    if (!address) {
        return -1;
    }
    ggml_backend_reg_t (*add_server)(const char *);
    memcpy(&add_server, &address, sizeof address);
    ggml_backend_reg_t reg = add_server(endpoint);
    dev = reg && ggml_backend_reg_dev_count(reg) == 1 ? ggml_backend_reg_dev_get(reg, 0) : NULL;
    return dev ? 0 : -1;
}

static int teardown(void ** state) {
    (void) state;
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    return 0;
}

static void add_far_away(void ** state) {
    (void) state;
    static const int64_t lengths[] = {1, 7, 101, 1000, 33333};
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    assert_non_null(backend);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        int64_t n = lengths[k];
        struct ggml_init_params params = {
            .mem_size = ggml_tensor_overhead() * 16 + ggml_graph_overhead(), .no_alloc = true};
        struct ggml_context * ctx = ggml_init(params);
        struct ggml_tensor * a = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, n);
        struct ggml_tensor * sum = ggml_add(ctx, a, a);
        struct ggml_tensor * next = ggml_new_tensor_1d(ctx, GGML_TYPE_I8, n);
        struct ggml_cgraph * graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, sum);
        ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
        assert_non_null(buffer);
        int8_t * data = malloc((size_t) n);
        int8_t * got = malloc((size_t) n);
        for (int64_t i = 0; i < n; i++) {
            data[i] = (int8_t) (i % 120 - 60);
        }
        ggml_backend_tensor_set(a, data, 0, (size_t) n);
        ggml_backend_tensor_set(next, data, 0, (size_t) n);
        assert_int_equal(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
        ggml_backend_tensor_get(next, got, 0, (size_t) n);
        assert_memory_equal(got, data, (size_t) n); // the neighbour of the sum
        ggml_backend_tensor_get(sum, got, 0, (size_t) n);
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(got[i], 2 * data[i]);
        }
        free(data);
        free(got);
        ggml_backend_buffer_free(buffer);
        ggml_free(ctx);
    }
    ggml_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(add_far_away)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
