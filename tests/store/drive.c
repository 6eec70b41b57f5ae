/* SPDX-License-Identifier: Apache-2.0 */
/* A program that drives a store plugin for its tests: store-drive PLUGIN [ARGUMENTS of tests/plugin_host.h]. Reads a
 * command from each line of standard input and answers each with a line, "ok ..." or "error ERRNO MESSAGE | HINT":
 *
 *      put NAME TEXT              get NAME               remove NAME         list [PREFIX]
 *      fill NAME SIZE SEED        check NAME SIZE SEED   (contents made of a seed: "z..." ones can be compressed)
 *      commit LEASE|- TOKEN FLAGS NAME=TEXT... NAME~SIZE~SEED... NAME!...     (the last is removed)
 *      take LEASE HOLDER TTL REPLACE   renew LEASE TOKEN TTL   release LEASE TOKEN   look LEASE
 *      collect                    probe                  restart
 *      deadline MS                of the next command; 0 cancels it before it begins
 *      threads COUNT ROUNDS       so many threads put, get, list and remove names of their own
 */
#include "plugin_host.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <snipara-sandbox/store.h>

#define OUTPUT_MAX ((size_t)256 << 20)

static struct sbx_host_state host;
static const struct sbx_store_ops *ops;
static void *instance;
static struct sbx_call next_call = {.struct_size = sizeof(struct sbx_call), .cancel_fd = -1};

static void answer(int r, const struct sbx_error *err) {
        if (r == 0)
                printf("ok\n");
        else
                printf("error %s %s | %s\n", strerrorname_np(-r), err->message, err->hint);
}

/* The same bytes for the same seed; every other one the same where they are to shrink. */
static unsigned char *make_content(size_t size, const char *seed) {
        unsigned char *content = malloc(size + 1);
        uint64_t state = 88172645463325252u;

        for (const char *at = seed; *at != '\0'; at++)
                state = (state ^ (unsigned char)*at) * 1099511628211u;
        for (size_t i = 0; content != NULL && i < size; i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                content[i] = *seed == 'z' && i % 4 != 0 ? 'z' : (unsigned char)(state >> 32);
        }
        return content;
}

static void run_put(char *arguments, const struct sbx_call *call) {
        char *text = strchr(arguments, ' ');
        struct sbx_error err = {0};

        *text++ = '\0';
        answer(ops->put(instance, arguments, (struct sbx_bytes){text, strlen(text)}, call, &err), &err);
}

static void run_fill(const char *arguments, const struct sbx_call *call) {
        char name[256], seed[64];
        struct sbx_error err = {0};
        unsigned char *content;
        size_t size;

        if (sscanf(arguments, "%255s %zu %63s", name, &size, seed) != 3)
                abort();
        content = make_content(size, seed);
        answer(ops->put(instance, name, (struct sbx_bytes){content, size}, call, &err), &err);
        free(content);
}

static void run_get(const char *name, const struct sbx_call *call) {
        struct sbx_output output = {.max = OUTPUT_MAX};
        struct sbx_error err = {0};
        int r = ops->get(instance, name, call, &output, &err);

        if (r == 0)
                printf("ok %s\n", output.data != NULL ? output.data : "");
        else
                answer(r, &err);
        free(output.data);
}

static void run_check(const char *arguments, const struct sbx_call *call) {
        struct sbx_output output = {.max = OUTPUT_MAX};
        struct sbx_error err = {0};
        char name[256], seed[64];
        unsigned char *content;
        size_t size;
        int r;

        if (sscanf(arguments, "%255s %zu %63s", name, &size, seed) != 3)
                abort();
        r = ops->get(instance, name, call, &output, &err);
        content = make_content(size, seed);
        if (r == 0 && (output.size != size || (size > 0 && memcmp(output.data, content, size) != 0)))
                printf("error DIFFERENT %zu bytes\n", output.size);
        else
                answer(r, &err);
        free(content);
        free(output.data);
}

static int print_item(void *data, const char *name, uint64_t size) {
        printf(" %s=%llu", name, (unsigned long long)size);
        return 0;
}

static void run_list(const char *prefix, const struct sbx_call *call) {
        struct sbx_store_events events = {.struct_size = sizeof(events), .item = print_item};
        struct sbx_error err = {0};
        int r;

        printf("ok");
        r = ops->list(instance, prefix, &events, call, &err);
        printf(r == 0 ? "\n" : " then ");
        if (r < 0)
                answer(r, &err);
}

/* NAME=TEXT, NAME~SIZE~SEED or NAME! */
static struct sbx_store_change parse_change(char *word, unsigned char **ret_content) {
        char *mark = strpbrk(word, "=~!"), kind = *mark;
        struct sbx_store_change change = {.name = word};
        char *seed;

        *mark++ = '\0';
        if (kind == '=')
                change.blob = (struct sbx_bytes){mark, strlen(mark)};
        if (kind == '~') {
                change.blob.size = strtoul(mark, &seed, 10);
                *ret_content = make_content(change.blob.size, seed + 1);
                change.blob.data = *ret_content;
        }
        return change;
}

static void run_commit(char *arguments, const struct sbx_call *call) {
        struct sbx_store_change changes[256];
        unsigned char *contents[256] = {0};
        size_t count = 0;
        char *rest = NULL, *lease = strtok_r(arguments, " ", &rest);
        uint64_t token = strtoull(strtok_r(NULL, " ", &rest), NULL, 10);
        uint32_t flags = (uint32_t)strtoul(strtok_r(NULL, " ", &rest), NULL, 10);
        struct sbx_error err = {0};

        for (char *word; (word = strtok_r(NULL, " ", &rest)) != NULL && count < 256; count++)
                changes[count] = parse_change(word, &contents[count]);
        answer(ops->commit(instance, changes, count, strcmp(lease, "-") == 0 ? NULL : lease, token, flags, call, &err),
               &err);
        for (size_t i = 0; i < count; i++)
                free(contents[i]);
}

static void print_lease(int r, const struct sbx_store_lease *lease, const struct sbx_error *err) {
        if (r == 0)
                printf("ok %llu %u %s\n", (unsigned long long)lease->token, lease->remaining_ms, lease->holder);
        else if (r == -EBUSY)
                printf("error EBUSY %llu %u %s\n", (unsigned long long)lease->token, lease->remaining_ms,
                       lease->holder);
        else
                answer(r, err);
}

static void run_lease(const char *command, const char *arguments, const struct sbx_call *call) {
        struct sbx_store_lease lease = {.struct_size = sizeof(lease)};
        unsigned long long first = 0, second = 0;
        char name[256] = "", holder[256] = "";
        struct sbx_error err = {0};

        if (strcmp(command, "take") == 0) {
                if (sscanf(arguments, "%255s %255s %llu %llu", name, holder, &first, &second) != 4)
                        abort();
                print_lease(ops->lease_take(instance, name, holder, (uint32_t)first, second, call, &lease, &err),
                            &lease, &err);
                return;
        }
        sscanf(arguments, "%255s %llu %llu", name, &first, &second);
        if (strcmp(command, "look") == 0)
                print_lease(ops->lease_look(instance, name, call, &lease, &err), &lease, &err);
        else if (strcmp(command, "renew") == 0)
                answer(ops->lease_renew(instance, name, first, (uint32_t)second, call, &err), &err);
        else
                answer(ops->lease_release(instance, name, first, call, &err), &err);
}

static void run_collect(const struct sbx_call *call) {
        struct sbx_output output = {.max = OUTPUT_MAX};
        struct sbx_error err = {0};
        int r = ops->collect(instance, call, &output, &err);

        if (r == 0)
                printf("ok %s\n", output.data);
        else
                answer(r, &err);
        free(output.data);
}

static void print_probe(void *data, int status, const char *subject, const char *detail, const char *remedy) {
        printf("%d %s: %s (%s); ", status, subject, detail, remedy != NULL ? remedy : "");
}

static void run_probe(const struct sbx_call *call) {
        struct sbx_probe_events events = {.struct_size = sizeof(events), .report = print_probe};
        int r = host.plugin->probe(instance, &events, call);

        printf("= %s\n", r == 0 ? "ok" : strerrorname_np(-r));
}

/* ---- threads ---- */

struct worker {
        pthread_t thread;
        unsigned number, rounds, failed;
};

static void work_once(struct worker *worker, unsigned round) {
        struct sbx_output output = {.max = OUTPUT_MAX};
        char name[64], text[64];
        size_t size = round % 3 == 0 ? 100000 : 40;
        unsigned char *content;

        snprintf(name, sizeof(name), "threads/%u/%u", worker->number, round % 4);
        snprintf(text, sizeof(text), "z%u.%u", worker->number, round);
        content = make_content(size, text);
        worker->failed += ops->put(instance, name, (struct sbx_bytes){content, size}, NULL, NULL) < 0;
        worker->failed += ops->get(instance, name, NULL, &output, NULL) < 0 || output.size != size ||
                          memcmp(output.data, content, size) != 0;
        if (round % 5 == 4)
                worker->failed += ops->remove(instance, name, NULL, NULL) < 0;
        free(output.data);
        free(content);
}

static void *work(void *data) {
        struct worker *worker = data;

        for (unsigned i = 0; i < worker->rounds; i++)
                work_once(worker, i);
        return NULL;
}

static void run_threads(const char *arguments) {
        struct worker workers[32];
        unsigned count, rounds, failed = 0;

        if (sscanf(arguments, "%u %u", &count, &rounds) != 2 || count > 32)
                abort();
        for (unsigned i = 0; i < count; i++) {
                workers[i] = (struct worker){.number = i, .rounds = rounds};
                if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
                        abort();
        }
        for (unsigned i = 0; i < count; i++) {
                pthread_join(workers[i].thread, NULL);
                failed += workers[i].failed;
        }
        printf(failed == 0 ? "ok\n" : "error FAILED %u\n", failed);
}

/* ---- commands ---- */

static void run_plain(const char *command, char *arguments, const struct sbx_call *call) {
        struct sbx_error err = {0};

        if (strcmp(command, "remove") == 0)
                answer(ops->remove(instance, arguments, call, &err), &err);
        else if (strcmp(command, "collect") == 0)
                run_collect(call);
        else if (strcmp(command, "probe") == 0)
                run_probe(call);
        else if (strcmp(command, "threads") == 0)
                run_threads(arguments);
        else if (strcmp(command, "restart") == 0) {
                host.plugin->stop(instance);
                answer(host.plugin->start(instance, call, &err), &err);
        } else
                run_lease(command, arguments, call);
}

static void run(const char *command, char *arguments, const struct sbx_call *call) {
        if (strcmp(command, "put") == 0)
                run_put(arguments, call);
        else if (strcmp(command, "fill") == 0)
                run_fill(arguments, call);
        else if (strcmp(command, "check") == 0)
                run_check(arguments, call);
        else if (strcmp(command, "get") == 0)
                run_get(arguments, call);
        else if (strcmp(command, "list") == 0)
                run_list(arguments, call);
        else if (strcmp(command, "commit") == 0)
                run_commit(arguments, call);
        else
                run_plain(command, arguments, call);
}

static void set_deadline(const char *arguments) {
        unsigned long ms = strtoul(arguments, NULL, 10);

        if (ms > 0)
                next_call.deadline_ns = host.services.clock_ns(&host) + ms * UINT64_C(1000000);
        else
                next_call.cancel_fd = eventfd(1, EFD_CLOEXEC);
}

static void run_line(char *line) {
        char *arguments = strchr(line, ' ');
        struct sbx_call call = next_call;

        if (arguments != NULL)
                *arguments++ = '\0';
        else
                arguments = line + strlen(line);
        if (strcmp(line, "deadline") == 0) {
                set_deadline(arguments);
                return;
        }
        run(line, arguments, &call);
        fflush(stdout);
        if (call.cancel_fd >= 0)
                close(call.cancel_fd);
        next_call = (struct sbx_call){.struct_size = sizeof(next_call), .cancel_fd = -1};
}

int main(int argc, char **argv) {
        struct sbx_error err = {0};
        char *line = NULL;
        size_t capacity = 0;
        ssize_t length;

        if (argc < 2 || !plugin_host_load(&host, argv[1], argc, argv))
                return 2;
        ops = host.plugin->ops;
        if (host.plugin->open(&host.services, &instance, &err) < 0 ||
            host.plugin->start(instance, &next_call, &err) < 0) {
                answer(err.code, &err);
                return 1;
        }
        while ((length = getline(&line, &capacity, stdin)) > 0) {
                line[strcspn(line, "\n")] = '\0';
                run_line(line);
        }
        free(line);
        host.plugin->stop(instance);
        host.plugin->close(instance);
        return 0;
}
