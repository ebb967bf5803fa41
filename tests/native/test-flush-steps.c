// test-flush-steps: which instructions a flush really executes. A process is stepped through
// amdxdna_flush, one instruction at a time, and CLFLUSH and MFENCE are counted by their bytes and
// by the lines that they name: what a compiler leaves out, or a hook pretends, does not count.
#include "base/cmocka-all.h"

#include "amdxdna/flush.h"
#include "skip.h"

#if defined(__x86_64__)
#    include <errno.h>
#    include <signal.h>
#    include <stdlib.h>
#    include <string.h>
#    include <sys/ptrace.h>
#    include <sys/user.h>
#    include <sys/wait.h>
#    include <unistd.h>

enum { LINE = AMDXDNA_LINE, BUFFER = 64 * LINE };

static char buffer[BUFFER] __attribute__((aligned(LINE)));

struct steps {
    int flushes, fences, fences_before, fences_after; // before the first flush, behind the last
    uint64_t first, last;                             // lines
};

// The general registers in the order in which instructions number them.
static uint64_t reg(const struct user_regs_struct * r, int n) {
    const unsigned long long all[] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp,
                                      r->rsi, r->rdi, r->r8,  r->r9,  r->r10, r->r11,
                                      r->r12, r->r13, r->r14, r->r15};
    return all[n];
}

// CLFLUSH m8 is 0F AE /7, perhaps behind a REX byte; of its ways to name memory compilers use a
// register with or without a displacement.
static bool is_clflush(const uint8_t * code, const struct user_regs_struct * r, uint64_t * at) {
    int rex = *code >= 0x40 && *code <= 0x4f ? *code++ : 0;
    if (code[0] != 0x0f || code[1] != 0xae || (code[2] >> 3 & 7) != 7 || code[2] >> 6 == 3) {
        return false;
    }
    int mod = code[2] >> 6, rm = code[2] & 7;
    assert_true(rm != 4 && (rm != 5 || mod != 0)); // an index, or relative to the instruction
    int32_t away = 0;
    if (mod == 1) {
        away = (int8_t) code[3];
    } else if (mod == 2) {
        memcpy(&away, code + 3, sizeof away);
    }
    *at = reg(r, rm + 8 * (rex & 1)) + (uint64_t) (int64_t) away;
    return true;
}

static void look(pid_t child, struct steps * s) {
    struct user_regs_struct r;
    uint8_t code[16];
    assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &r), 0);
    for (size_t i = 0; i < sizeof code; i += 8) {
        errno = 0;
        long word = ptrace(PTRACE_PEEKTEXT, child, (void *) (uintptr_t) (r.rip + i), NULL);
        if (errno) {
            return; // the end of a page that nothing follows
        }
        memcpy(code + i, &word, 8);
    }
    uint64_t at;
    if (is_clflush(code, &r, &at)) {
        s->first = s->flushes++ ? s->first : at / LINE * LINE;
        s->last = at / LINE * LINE;
        s->fences_after = 0;
    } else if (code[0] == 0x0f && code[1] == 0xae && code[2] == 0xf0) {
        s->fences++;
        s->fences_before += s->flushes == 0;
        s->fences_after++;
    }
}

// False: this machine does not let a process be traced.
static bool step(size_t from, size_t size, struct steps * s) {
    *s = (struct steps){0};
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(77);
        }
        raise(SIGSTOP);
        amdxdna_flush(buffer + from, size);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    while (WIFSTOPPED(status)) {
        look(child, s);
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return false;
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_steps(void ** state) {
    (void) state;
    static const struct {
        size_t from, size;
        int lines;
    } rows[] = {{0, 1, 1},
                {0, LINE, 1},
                {1, LINE, 2},
                {LINE - 1, 2, 2},
                {0, BUFFER, 64},
                {3, 10 * LINE, 11},
                {5 * LINE, 3 * LINE, 3},
                {7, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct steps s;
        if (!step(rows[i].from, rows[i].size, &s)) {
            skip_test("this machine does not let a process be stepped through");
        }
        assert_int_equal(s.flushes, rows[i].lines);
        if (rows[i].lines) {
            uint64_t base = (uint64_t) (uintptr_t) buffer;
            assert_int_equal(s.first, base + rows[i].from / LINE * LINE);
            assert_int_equal(s.last, base + (rows[i].from + rows[i].size - 1) / LINE * LINE);
            assert_true(s.fences_before >= 1 && s.fences_after >= 1);
        } else {
            assert_int_equal(s.fences, 0);
        }
    }
}
#else
static void test_steps(void ** state) {
    (void) state;
    skip_test("CLFLUSH is an instruction of x86-64");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
