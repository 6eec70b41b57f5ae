/* SPDX-License-Identifier: Apache-2.0 */
/* Whose lock is free, and who may know whose host label it is. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "alloc_fail.h"
#include "locks.h"

#define ID "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static int make_directory(void **state) {
        char path[] = "/tmp/sbx-locks-XXXXXX";

        *state = mkdtemp(path) != NULL ? strdup(path) : NULL;
        return *state == NULL;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
        return remove(path);
}

static int remove_directory(void **state) {
        int r = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(*state);
        return r;
}

static struct locks *open_locks(const char *directory) {
        struct locks *locks = NULL;
        struct sbx_error err = {0};

        if (locks_open(directory, &locks, &err) < 0)
                fail_msg("%s", err.message);
        return locks;
}

static void test_life_of_a_lock(void **state) {
        struct locks *ours = open_locks(*state), *theirs = open_locks(*state);
        char(*dead)[LOCKS_HASH_SIZE] = NULL;
        size_t count = 99;
        int fd = -1;

        assert_int_equal(locks_look(theirs, ID), LOCK_MISSING);
        assert_int_equal(locks_hold(ours, ID, &fd, NULL), 0);
        assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        assert_int_equal(locks_look(theirs, ID), LOCK_HELD);
        assert_int_equal(locks_look(ours, ID), LOCK_HELD); /* asking does not let it go */
        assert_int_equal(locks_look(theirs, ID), LOCK_HELD);
        locks_forget(theirs, ID);
        assert_int_equal(locks_look(theirs, ID), LOCK_HELD);
        assert_int_equal(locks_dead(theirs, &dead, &count), 0);
        assert_int_equal(count, 0);
        free(dead);

        close(fd);
        assert_int_equal(locks_look(theirs, ID), LOCK_FREE);
        assert_int_equal(locks_dead(theirs, &dead, &count), 0);
        assert_int_equal(count, 1);
        assert_string_equal(dead[0], ID);
        free(dead);
        locks_forget(theirs, ID);
        assert_int_equal(locks_look(ours, ID), LOCK_MISSING);
        locks_free(ours);
        locks_free(theirs);
}

static void test_killed_owner(void **state) {
        struct locks *locks = open_locks(*state);
        int ready[2], status = 0;
        char byte;
        pid_t pid;

        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct locks *own = NULL;
                int fd;

                if (locks_open(*state, &own, NULL) == 0 && locks_hold(own, OTHER, &fd, NULL) == 0 &&
                    write(ready[1], "x", 1) == 1)
                        pause();
                _exit(1);
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        assert_int_equal(locks_look(locks, OTHER), LOCK_HELD);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(locks_look(locks, OTHER), LOCK_FREE);
        locks_forget(locks, OTHER);
        locks_free(locks);
}

/* Many make and forget the same locks at once: who holds one sees it held, whatever the others remove. */
static void test_race_of_holders_and_sweepers(void **state) {
        struct locks *locks = open_locks(*state);
        int failures = 0, status;

        for (int worker = 0; worker < 4; worker++) {
                pid_t pid = fork();

                assert_true(pid >= 0);
                if (pid == 0) {
                        struct locks *own = NULL;
                        char id[LOCKS_HASH_SIZE];

                        if (locks_open(*state, &own, NULL) < 0)
                                _exit(1);
                        for (int i = 0; i < 400; i++) {
                                char(*dead)[LOCKS_HASH_SIZE] = NULL;
                                size_t count = 0;
                                int fd = -1;

                                snprintf(id, sizeof(id), "%016x%016x", worker, i);
                                if (locks_hold(own, id, &fd, NULL) < 0)
                                        _exit(2);
                                if (locks_look(own, id) != LOCK_HELD)
                                        _exit(3);
                                if (locks_dead(own, &dead, &count) < 0)
                                        _exit(4);
                                for (size_t k = 0; k < count; k++)
                                        locks_forget(own, dead[k]);
                                free(dead);
                                if (locks_look(own, id) != LOCK_HELD)
                                        _exit(5);
                                close(fd);
                        }
                        _exit(0);
                }
        }
        while (wait(&status) > 0)
                failures = failures * 10 + (WIFEXITED(status) ? WEXITSTATUS(status) : 9); /* which of them, as digits */
        assert_int_equal(failures, 0);
        locks_free(locks);
}

/* Two directories are two hosts, and one is one however often it is opened. */
static void test_host(void **state) {
        char other[] = "/tmp/sbx-locks-XXXXXX";
        struct locks *first = open_locks(*state), *again = open_locks(*state), *elsewhere;
        const struct locks_part whole[] = {{"abc", 3}}, split[] = {{"ab", 2}, {"c", 1}},
                                moved[] = {{"a", 1}, {"bc", 2}};
        char hashes[5][LOCKS_HASH_SIZE];
        void *path = other;

        assert_non_null(mkdtemp(other));
        elsewhere = open_locks(other);
        assert_true(locks_is_id(locks_host(first)));
        assert_string_equal(locks_host(first), locks_host(again));
        assert_string_not_equal(locks_host(first), locks_host(elsewhere));
        locks_hash(first, whole, 1, hashes[0]);
        locks_hash(first, split, 2, hashes[1]);
        locks_hash(first, moved, 2, hashes[2]);
        locks_hash(elsewhere, whole, 1, hashes[3]);
        locks_hash(again, whole, 1, hashes[4]);
        assert_string_equal(hashes[0], hashes[4]);
        for (int i = 0; i < 4; i++)
                for (int k = 0; k < i; k++)
                        assert_string_not_equal(hashes[i], hashes[k]);
        locks_free(first);
        locks_free(again);
        locks_free(elsewhere);
        assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void write_file(const char *directory, const char *name, const char *text) {
        char path[512];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        unlink(path);
        file = fopen(path, "we");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
}

/* What else lies there is no lock; a link instead of a directory, and an identity that is none, are refused. */
static void test_strange_directories(void **state) {
        struct locks *locks = open_locks(*state), *refused = NULL;
        char(*dead)[LOCKS_HASH_SIZE] = NULL, place[256], link[300];
        struct sbx_error err = {0};
        size_t count = 0;

        snprintf(place, sizeof(place), "%s/docker/%s", (char *)*state, locks_host(locks));
        write_file(place, ".lock", "");
        write_file(place, ID ".loc", "");
        write_file(place, "x" ID ".lock", "");
        write_file(place, "0123456789ABCDEF0123456789abcdef.lock", "");
        snprintf(link, sizeof(link), "%s/" OTHER ".lock", place);
        assert_int_equal(symlink("/etc/passwd", link), 0);
        assert_int_equal(locks_dead(locks, &dead, &count), 0);
        assert_int_equal(count, 0); /* the link can't be known: hands off */
        free(dead);
        assert_int_equal(locks_look(locks, "../../../etc/passwd"), LOCK_HELD);
        locks_free(locks);

        snprintf(place, sizeof(place), "%s/docker", (char *)*state);
        write_file(place, "identity", "short");
        assert_int_equal(locks_open(*state, &refused, &err), -EBADMSG);
        assert_contains(err.message, "identity");
        assert_true(err.hint[0] != '\0');
        assert_null(refused);
        err = (struct sbx_error){0};
        assert_true(locks_open("/nonexistent", &refused, &err) < 0);
        assert_contains(err.message, "/nonexistent");
}

static int sweep_body(void *directory) {
        struct locks *locks = NULL;
        char(*dead)[LOCKS_HASH_SIZE] = NULL;
        size_t count = 0;
        int fd = -1, r = locks_open(directory, &locks, NULL);

        if (r == 0)
                r = locks_hold(locks, ID, &fd, NULL);
        if (r == 0)
                r = locks_dead(locks, &dead, &count);
        free(dead);
        if (fd >= 0)
                close(fd);
        locks_free(locks);
        return r;
}

static void test_no_memory(void **state) {
        assert_true(alloc_fail_sweep(sweep_body, *state) > 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_life_of_a_lock, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_killed_owner, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_race_of_holders_and_sweepers, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_host, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_strange_directories, make_directory, remove_directory),
                cmocka_unit_test_setup_teardown(test_no_memory, make_directory, remove_directory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
