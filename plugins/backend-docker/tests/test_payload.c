/* SPDX-License-Identifier: Apache-2.0 */
/* Workers on their way in, without a container: the very programs and bytes that containers get, in a process of this
 * machine. Arguments: the source tree's guests, and a directory to work in. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#include "fake_host.h"
#include "payload.h"
#include "util.h"

#define ANSWER_MAX 65536
#define WAIT_MS 60000

static char guests_value[PATH_MAX + 32];
static const char *work;

struct child {
        pid_t pid;
        int in, out, err;
};

static struct payloads *open_payloads(struct sbx_host *host, struct sbx_host_state *state, const char *const *values) {
        struct payloads *payloads = NULL;
        struct sbx_error err = {0};

        fake_host_init(host, state, values);
        if (payloads_new(host, &payloads, &err) < 0)
                fail_msg("%s", err.message);
        return payloads;
}

/* As a container: an environment of its own, the work directory as workspace. */
static bool start(const struct payload *payload, const char *const *more, struct child *child) {
        char path[PATH_MAX];
        /* The PATH that it is found by: Python looks for its own files with it. */
        char *environment[8] = {"SBX_CONTROL_FD=0,1", path, "HOME=/nonexistent", "LANG=C.UTF-8",
                                "PYTHONDONTWRITEBYTECODE=1"};
        int in[2], out[2], err[2], count = 5;
        posix_spawn_file_actions_t actions;
        int r;

        snprintf(path, sizeof(path), "PATH=%s", getenv("PATH"));
        for (; more != NULL && *more != NULL && count < 7; more++)
                environment[count++] = (char *)(uintptr_t)*more;
        assert_int_equal(pipe2(in, O_CLOEXEC) + pipe2(out, O_CLOEXEC) + pipe2(err, O_CLOEXEC), 0);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        posix_spawn_file_actions_adddup2(&actions, err[1], 2);
        posix_spawn_file_actions_addchdir_np(&actions, work);
        r = posix_spawnp(&child->pid, payload->argv[0], &actions, NULL, (char *const *)(uintptr_t)payload->argv,
                         environment);
        posix_spawn_file_actions_destroy(&actions);
        close(in[0]);
        close(out[1]);
        close(err[1]);
        child->in = in[1];
        child->out = out[0];
        child->err = err[0];
        return r == 0;
}

static void put(int fd, const void *data, size_t size) {
        for (size_t done = 0; done < size;) {
                ssize_t n = write(fd, (const char *)data + done, size - done);

                assert_true(n > 0);
                done += (size_t)n;
        }
}

static void put_frame(int fd, uint8_t type, const char *json, const char *blob) {
        unsigned char frame[4096];
        size_t json_size = strlen(json), size = json_size, at = 5;

        if (blob != NULL) {
                size += 4 + strlen(blob);
                for (int i = 0; i < 4; i++)
                        frame[at++] = (unsigned char)(json_size >> (8 * i));
        }
        memcpy(frame + at, json, json_size);
        if (blob != NULL)
                memcpy(frame + at + json_size, blob, strlen(blob));
        for (int i = 0; i < 4; i++)
                frame[i] = (unsigned char)(size >> (8 * i));
        frame[4] = type;
        put(fd, frame, size + 5);
}

/* Bytes until `wanted` is among them; the whole of it is left in `text` with NULs made visible. */
static void read_until(const struct child *child, int fd, const char *wanted, char text[ANSWER_MAX]) {
        size_t have = 0;

        text[0] = '\0';
        while (strstr(text, wanted) == NULL) {
                struct pollfd one = {.fd = fd, .events = POLLIN};
                ssize_t n = 0;

                if (poll(&one, 1, WAIT_MS) <= 0 || (n = read(fd, text + have, ANSWER_MAX - 1 - have)) <= 0) {
                        struct pollfd last = {.fd = child->err, .events = POLLIN};
                        char words[4096] = "";

                        n = poll(&last, 1, 1000) > 0 ? read(child->err, words, sizeof(words) - 1) : 0;
                        words[n > 0 ? n : 0] = '\0';
                        fail_msg("\"%s\" was expected, and came: %s; the worker's last words: %s", wanted, text, words);
                }
                for (ssize_t i = 0; i < n; i++)
                        if (text[have + (size_t)i] == '\0')
                                text[have + (size_t)i] = '~';
                have += (size_t)n;
                text[have] = '\0';
        }
}

static int finish(struct child *child) {
        int status = 0;

        close(child->in);
        close(child->out);
        close(child->err);
        assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
        return status;
}

static void greet(struct child *child, const struct payload *payload, char text[ANSWER_MAX]) {
        put(child->in, payload->bytes.data, payload->bytes.size);
        put_frame(child->in, 0x01, "{\"protocol\": 1, \"session\": \"t\", \"framed_output\": true}", NULL);
        read_until(child, child->out, "}", text);
        assert_contains(text, "\"protocol\"");
}

static void write_file(const char *name, const char *content) {
        char path[PATH_MAX];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", work, name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        put(fd, content, strlen(content));
        close(fd);
}

static void remove_file(const char *name) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", work, name);
        unlink(path);
}

static const struct payload *payload_of(struct payloads *payloads, enum docker_family family) {
        const struct payload *payload = NULL, *again = NULL;
        struct sbx_error err = {0};

        if (payload_get(payloads, family, &payload, &err) < 0)
                fail_msg("%s", err.message);
        assert_int_equal(payload_get(payloads, family, &again, NULL), 0);
        assert_ptr_equal(payload, again);
        assert_non_null(payload->keeper);
        assert_non_null(payload->killer);
        return payload;
}

/* The worker of each family says that it is ready, and runs code. */
static void run(enum docker_family family, const char *code, const char *wanted) {
        struct sbx_host host;
        struct sbx_host_state state;
        struct payloads *payloads = open_payloads(&host, &state, (const char *const[]){guests_value, NULL});
        const struct payload *payload = payload_of(payloads, family);
        struct child child;
        char text[ANSWER_MAX];
        bool started = start(payload, NULL, &child);

        if (started) {
                greet(&child, payload, text);
                put_frame(child.in, 0x02, "{\"id\": 1, \"filename\": \"<execution>\"}", code);
                read_until(&child, child.out, wanted, text);
                finish(&child);
        }
        payloads_free(payloads);
        if (!started) {
                print_message("%s is not installed\n", payload->argv[0]);
                skip();
        }
}

static void test_python(void **state) {
        run(DOCKER_PYTHON, "print(6 * 7)", "42");
}

static void test_bash(void **state) {
        if (access("/bin/bash", X_OK) < 0) {
                print_message("bash is not installed\n");
                skip();
        }
        run(DOCKER_BASH, "echo $((6 * 7))", "42");
}

static void test_node(void **state) {
        if (access("/usr/bin/node", X_OK) < 0 && access("/usr/local/bin/node", X_OK) < 0) {
                print_message("node is not installed\n");
                skip();
        }
        run(DOCKER_NODE, "console.log(6 * 7)", "42");
}

/* Modules of the workspace do not stand in for those of the worker, and code can import them all the same. */
static void test_modules_of_the_workspace(void **unused) {
        struct sbx_host host;
        struct sbx_host_state state;
        struct payloads *payloads = open_payloads(&host, &state, (const char *const[]){guests_value, NULL});
        const struct payload *payload = payload_of(payloads, DOCKER_PYTHON);
        char path[PATH_MAX + 16], text[ANSWER_MAX];
        const char *const more[] = {path, NULL};
        struct child child;

        write_file("json.py", "raise SystemError('the wrong one')\n");
        write_file("resource.py", "raise SystemError('the wrong one')\n");
        write_file("mine.py", "answer = 'of the workspace'\n");
        snprintf(path, sizeof(path), "PYTHONPATH=%s", work);
        for (int with_path = 0; with_path < 2; with_path++) {
                assert_true(start(payload, with_path ? more : NULL, &child));
                greet(&child, payload, text);
                put_frame(child.in, 0x02, "{\"id\": 1}", "import mine; print(mine.answer)");
                read_until(&child, child.out, "of the workspace", text);
                finish(&child);
        }
        remove_file("json.py");
        remove_file("resource.py");
        remove_file("mine.py");
        payloads_free(payloads);
}

/* An error of the worker itself shows where it is. */
static void test_the_workers_frames_have_names(void **unused) {
        struct sbx_host host;
        struct sbx_host_state state;
        struct payloads *payloads = open_payloads(&host, &state, (const char *const[]){guests_value, NULL});
        const struct payload *payload = payload_of(payloads, DOCKER_PYTHON);
        char text[ANSWER_MAX];
        struct child child;

        assert_true(start(payload, NULL, &child));
        put(child.in, payload->bytes.data, payload->bytes.size);
        put_frame(child.in, 0x02, "{}", ""); /* not hello */
        read_until(&child, child.err, "the first frame is not", text);
        assert_int_not_equal(finish(&child), 0);
        /* The traceback has the user's frames alone: here is none. */
        assert_null(strstr(text, "/.sbx/"));
        payloads_free(payloads);
}

/* The host leaves before all of it came: no word, no traceback. */
static void test_nothing_comes(void **unused) {
        struct sbx_host host;
        struct sbx_host_state state;
        struct payloads *payloads = open_payloads(&host, &state, (const char *const[]){guests_value, NULL});
        const struct payload *payload = payload_of(payloads, DOCKER_PYTHON);
        struct child child;
        char byte;

        assert_true(start(payload, NULL, &child));
        put(child.in, payload->bytes.data, 1000);
        close_fd(&child.in);
        assert_int_equal(read(child.err, &byte, 1), 0);
        assert_int_equal(finish(&child), 0);
        payloads_free(payloads);
}

static void refused(const char *directory, const char *what) {
        char value[PATH_MAX + 32];
        struct sbx_host host;
        struct sbx_host_state state;
        struct payloads *payloads;
        const struct payload *payload = NULL;
        struct sbx_error err = {0};

        snprintf(value, sizeof(value), "directory.guests=%s", directory);
        payloads = open_payloads(&host, &state, (const char *const[]){value, NULL});
        assert_true(payload_get(payloads, DOCKER_PYTHON, &payload, &err) < 0);
        assert_contains(err.message, what);
        assert_true(err.hint[0] != '\0');
        payloads_free(payloads);
}

static void test_an_installation_that_is_broken(void **unused) {
        char directory[PATH_MAX], path[PATH_MAX + 64];
        struct sbx_host_state state;
        struct sbx_host host;
        struct payloads *payloads = NULL;
        struct sbx_error err = {0};

        fake_host_init(&host, &state, (const char *const[]){NULL});
        assert_int_equal(payloads_new(&host, &payloads, &err), -ENOENT);
        refused("/nonexistent", "python/sbx_guest");
        snprintf(directory, sizeof(directory), "%s/broken", work);
        mkdir(directory, 0755);
        snprintf(path, sizeof(path), "%s/python", directory);
        mkdir(path, 0755);
        snprintf(path, sizeof(path), "%s/python/sbx_guest", directory);
        mkdir(path, 0755);
        refused(directory, "python/sbx_guest"); /* empty */
        snprintf(path, sizeof(path), "%s/python/sbx_guest/worker.py", directory);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        refused(directory, "worker.py");
        unlink(path);
        write_file("broken/python/sbx_guest/worker.py", "\xff\xfe");
        refused(directory, "worker.py");
        unlink(path);
        snprintf(path, sizeof(path), "%s/python/sbx_guest", directory);
        rmdir(path);
        snprintf(path, sizeof(path), "%s/python", directory);
        rmdir(path);
        rmdir(directory);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_python),
                cmocka_unit_test(test_bash),
                cmocka_unit_test(test_node),
                cmocka_unit_test(test_modules_of_the_workspace),
                cmocka_unit_test(test_the_workers_frames_have_names),
                cmocka_unit_test(test_nothing_comes),
                cmocka_unit_test(test_an_installation_that_is_broken),
        };
        char directory[] = "/tmp/sbx-payload-XXXXXX";
        int r;

        if (argc != 2 || (work = mkdtemp(directory)) == NULL)
                return 1;
        signal(SIGPIPE, SIG_IGN);
        snprintf(guests_value, sizeof(guests_value), "directory.guests=%s", argv[1]);
        r = cmocka_run_group_tests(tests, NULL, NULL);
        rmdir(work);
        return r;
}
