// test-fallback-rpc <device>: a device behind ggml's RPC server as it is, with nothing set, on the
// loopback. The client there takes every op for supported and the server ends itself when a graph
// fails, so that only a device with the CPU fallback can be served: a graph with ops that no kernel
// computes, flash attention among them, must come back with the CPU's values.
#include "base/cmocka-all.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "gpu-env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char * arch = "aie2";
static pid_t server;
static char endpoint[32];
static char log_path[] = "/tmp/test-fallback-rpc-XXXXXX";

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = fd >= 0 && bind(fd, (struct sockaddr *) &address, sizeof address) == 0 &&
                       getsockname(fd, (struct sockaddr *) &address, &size) == 0
                   ? ntohs(address.sin_port)
                   : 0;
    close(fd);
    return port;
}

static bool answers(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t) port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *) &address, sizeof address) == 0;
    close(fd);
    return ok;
}

static bool start(int port) {
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    int log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    server = fork();
    if (server == 0) {
        alarm(120); // it outlives exec: no server stays, whatever becomes of us
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        gpu_env(arch);
        setenv("GGML_BACKEND_PATH", PLUGIN, 1);
        execl(SERVER, SERVER, "-H", "127.0.0.1", "-p", text, "-d", "HSA0", (char *) NULL);
        _exit(127);
    }
    close(log);
    for (int i = 0; i < 600 && server > 0; i++) {
        if (waitpid(server, NULL, WNOHANG) == server) {
            server = 0;
            return false;
        }
        if (answers(port)) {
            return true;
        }
        usleep(50000);
    }
    return false;
}

static int setup(void ** state) {
    (void) state;
    close(mkstemp(log_path));
    for (int tries = 0; tries < 3; tries++) { // another program may take the port in between
        int port = free_port();
        if (port && start(port)) {
            snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
            return 0;
        }
    }
    return -1;
}

static int teardown(void ** state) {
    (void) state;
    if (server > 0) {
        kill(server, SIGTERM);
        waitpid(server, NULL, 0);
    }
    unlink(log_path);
    return 0;
}

enum { N = 64 };

// WIN_PART and WIN_UNPART are the CPU's on every device. There and back again: x.
static struct ggml_tensor * windows(struct ggml_context * ctx, struct ggml_tensor * x) {
    struct ggml_tensor * y = ggml_win_unpart(ctx, ggml_win_part(ctx, x, 8), N, 1, 8);
    return ggml_reshape_2d(ctx, y, N, N);
}

static void compute(ggml_backend_dev_t dev, float * out) {
    ggml_backend_t backend = ggml_backend_dev_init(dev, NULL);
    assert_non_null(backend);
    struct ggml_init_params params = {
        .mem_size = ggml_tensor_overhead() * 32 + ggml_graph_overhead(), .no_alloc = true};
    struct ggml_context * ctx = ggml_init(params);
    struct ggml_tensor * a = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, N);
    struct ggml_tensor * b = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, N, N);
    struct ggml_tensor * c = ggml_cumsum(ctx, windows(ctx, ggml_add(ctx, a, b)));
    c = ggml_roll(ctx, windows(ctx, c), 3, 1, 0, 0);
    struct ggml_tensor * d = ggml_add(ctx, c, ggml_roll(ctx, b, 0, 7, 0, 0));
    struct ggml_tensor * half = ggml_cast(ctx, b, GGML_TYPE_F16);
    struct ggml_tensor * attention = ggml_flash_attn_ext(ctx, a, half, half, NULL, 0.1f, 0, 0);
    d = ggml_add(ctx, d, ggml_reshape_2d(ctx, attention, N, N));
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, d);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    assert_non_null(buffer);
    float values[N * N];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < N * N; i++) {
            values[i] = (float) ((i * 37 + k * 11) % 64 - 32) / 64.0f;
        }
        ggml_backend_tensor_set(k ? b : a, values, 0, sizeof values);
    }
    for (int k = 0; k < 3; k++) { // the server keeps the graph
        assert_int_equal(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
    }
    ggml_backend_tensor_get(d, out, 0, sizeof values);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
}

static void same_as_the_cpu(void ** state) {
    (void) state;
    ggml_backend_reg_t rpc = ggml_backend_load(BACKENDS "/libggml-rpc.so");
    ggml_backend_load(BACKENDS "/libggml-cpu.so");
    assert_non_null(rpc);
    ggml_backend_reg_t (*add_server)(const char * endpoint);
    void * address = ggml_backend_reg_get_proc_address(rpc, "ggml_backend_rpc_add_server");
    assert_non_null(address);
    memcpy(&add_server, &address, sizeof address);
    ggml_backend_reg_t remote = add_server(endpoint);
    assert_non_null(remote);
    assert_int_equal(ggml_backend_reg_dev_count(remote), 1);
    ggml_backend_dev_t dev = ggml_backend_reg_dev_get(remote, 0);
    assert_non_null(strstr(ggml_backend_dev_name(dev), "RPC"));

    static float got[N * N], want[N * N];
    compute(dev, got);
    compute(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU), want);
    double sum = 0;
    for (int i = 0; i < N * N; i++) {
        sum += fabs((double) want[i]);
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1.0f + fabsf(want[i])))) {
            fail_msg("element %d is %g, not %g", i, (double) got[i], (double) want[i]);
        }
    }
    assert_true(sum > 1);
    // The server had our device, and lives.
    FILE * f = fopen(log_path, "r");
    char line[512];
    bool ours = false;
    while (f && fgets(line, sizeof line, f)) {
        ours |= strstr(line, "HSA0") != NULL;
    }
    if (f) {
        fclose(f);
    }
    assert_true(ours);
    assert_int_equal(waitpid(server, NULL, WNOHANG), 0);
}

int main(int argc, char ** argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_cpu)};
    arch = argc > 1 ? argv[1] : arch;
    if (!strncmp(arch, "gfx", 3) && !gpu_have_compiler()) {
        return skip_say("no clang++-19 or later with its lld to compile GPU kernels with");
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
