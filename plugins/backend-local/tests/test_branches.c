/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that begin as another one is, and run beside it, without the core: `test_branches BUILD_ROOT`. Speaks TAP. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"

#define STATE                                                                                                          \
        "import os, collections, decimal\n"                                                                            \
        "data = {i: str(i) for i in range(20000)}\n"                                                                   \
        "big = bytearray(os.urandom(6 << 20)); digest = hash(bytes(big))\n"                                            \
        "squares = (n * n for n in range(9)); next(squares), next(squares)\n"                                          \
        "def counter(n=0):\n"                                                                                          \
        "    while True:\n"                                                                                            \
        "        n += 1\n"                                                                                             \
        "        yield n\n"                                                                                            \
        "count = counter(); next(count)\n"                                                                             \
        "os.makedirs('/tmp/d', exist_ok=True)\n"                                                                       \
        "kept = open('/tmp/d/file', 'w+'); kept.write('first line\\n'); kept.flush()\n"                                \
        "noise = open('/dev/urandom', 'rb', 0)\n"
#define LOOK                                                                                                           \
        "print(len(data), data[777], digest == hash(bytes(big)), next(squares), next(count), "                         \
        "open('/tmp/d/file').read().strip(), len(noise.read(5)), decimal.Decimal(1) / 8)"
#define SEEN "20000 777 True 4 2 first line 5 0.125\n"

static void test_life(struct suite *suite) {
        struct sbx_guest guest, branches[3];
        int before;

        if (!begin(suite, &guest))
                return;
        end(suite, &guest);
        before = count_fds();
        if (!begin(suite, &guest) || !says(&guest, STATE, ""))
                return;
        for (int i = 0; i < 3; i++)
                if (!branch(suite, &guest, &branches[i]))
                        return;
        check(suite, says(&guest, LOOK, SEEN), "the original goes on");
        for (int i = 0; i < 3; i++)
                check(suite, says(&branches[i], LOOK, SEEN), "branch %d has all of it", i);
        check(suite, says(&branches[0], "data.clear(); big[:] = b''; kept.write('more'); kept.flush()", ""),
              "one changes what it has");
        check(suite, says(&branches[1], "print(len(data), len(big), open('/tmp/d/file').read())", "20000 6291456 first line\n\n"),
              "another one does not see it");
        check(suite, says(&guest, "print(len(data), len(big), open('/tmp/d/file').read())", "20000 6291456 first line\n\n"),
              "nor does the original");
        end(suite, &guest);
        check(suite, says(&branches[2], "print(next(count))", "3\n"), "branches outlive their original");
        for (int i = 0; i < 3; i++)
                end(suite, &branches[i]);
        check(suite, count_fds() == before, "no descriptor is left open: %d, %d", count_fds(), before);
}

int main(int argc, char **argv) {
        static void (*const tests[])(struct suite *) = {test_life};
        char cgroup[] = "cgroup=auto";
        char *settings[] = {cgroup};
        struct suite suite = {.root = argc > 1 ? argv[1] : NULL};

        if (suite.root == NULL) {
                fprintf(stderr, "usage: %s BUILD_ROOT\n", argv[0]);
                return 2;
        }
        printf("TAP version 13\n");
        if (open_suite(&suite, settings, 1)) {
                for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
                        tests[i](&suite);
                close_suite(&suite);
        }
        printf("1..%d\n", suite.count);
        return suite.failed != 0;
}
