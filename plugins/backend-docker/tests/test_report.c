/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of an engine, and the report of what it says that it did: with engines that leave things out. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "container_internal.h"
#include "fake_host.h"
#include "util.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* ---- an engine that is nothing but its facts */

struct engine {
        struct engine_info info;
};

const struct engine_info *engine_info(const struct engine *engine) {
        return &engine->info;
}

struct bench {
        struct engine engine;
        struct docker docker;
        struct sbx_host host;
        struct sbx_host_state state;
        struct payload payload;
        struct docker_runtime runtime;
        struct container_wish wish;
        char workspace[64];
};

static const char *const program[] = {"python3", "-c", "boot", NULL};
static const char *const keeper[] = {"python3", "-c", "keep", NULL};
static const char *const labels[] = {"org.example.a=b=c", "org.example.d=", NULL};

static void bench_open(struct bench *bench, const char *const *values) {
        struct sbx_error err = {0};

        *bench = (struct bench){0};
        bench->engine.info = (struct engine_info){.name = "docker",
                                                  .version = "20.10",
                                                  .api_version = "1.41",
                                                  .storage_driver = "overlay2",
                                                  .default_runtime = "runc",
                                                  .seccomp = "default",
                                                  .cgroup_version = 2,
                                                  .memory_swap = true,
                                                  .pids = true,
                                                  .init = true};
        snprintf(bench->engine.info.place.address, sizeof(bench->engine.info.place.address), "unix:///run/x.sock");
        fake_host_init(&bench->host, &bench->state, values);
        bench->docker = (struct docker){.host = &bench->host, .engine = &bench->engine};
        if (docker_options_read(&bench->host, &bench->docker.options, &err) < 0)
                fail_msg("%s", err.message);
        bench->payload = (struct payload){.argv = program, .keeper = keeper};
        bench->runtime = (struct docker_runtime){.name = (char *)"python", .image = (char *)"py:1"};
        bench->wish = (struct container_wish){.runtime = &bench->runtime,
                                              .payload = &bench->payload,
                                              .image = "sha256:1",
                                              .name = "n",
                                              .labels = labels};
}

static void bench_close(struct bench *bench) {
        docker_options_free(&bench->docker.options);
}

static json_t *config_of(struct bench *bench, const json_t *volumes) {
        struct sbx_error err = {0};
        json_t *config = NULL;

        if (container_config(&bench->docker, &bench->wish, volumes, &config, &err) < 0)
                fail_msg("%s", err.message);
        return config;
}

/* What an engine says that does everything it was asked for. */
static json_t *inspect_of(struct bench *bench) {
        json_t *config = config_of(bench, NULL), *host = json_incref(json_object_get(config, "HostConfig"));
        json_t *inspected = json_pack("{s:s, s:o, s:O, s:[], s:{s:i}}", "Id", ID, "Config", config, "HostConfig", host,
                                      "Mounts", "State", "Pid", 0);
        const json_t *mount = json_array_get(json_object_get(host, "Mounts"), 0);

        if (mount != NULL)
                json_array_append_new(json_object_get(inspected, "Mounts"),
                                      json_pack("{s:s, s:O, s:O, s:b}", "Type", "bind", "Source",
                                                json_object_get(mount, "Source"), "Destination",
                                                json_object_get(mount, "Target"), "RW",
                                                !json_is_true(json_object_get(mount, "ReadOnly"))));
        json_decref(host);
        return inspected;
}

static json_t *report_of(struct bench *bench, const json_t *inspected) {
        struct sbx_error err = {0};
        char *text = NULL;
        json_t *report;

        if (container_report(&bench->docker, &bench->wish, inspected, &text, &err) < 0)
                fail_msg("%s", err.message);
        report = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(report);
        free(text);
        return report;
}

static const char *state_of(const json_t *report, const char *name) {
        const json_t *layer;
        size_t i;

        json_array_foreach (json_object_get(report, "layers"), i, layer)
                if (strcmp(json_string_value(json_object_get(layer, "name")), name) == 0)
                        return json_string_value(json_object_get(layer, "state"));
        return "missing";
}

/* The engine left out, or changed, one thing of HostConfig. */
static void refused_without(const char *const *values, const char *key, json_t *instead, const char *layer) {
        struct bench bench;
        struct sbx_error err = {0};
        char *text = NULL;
        json_t *inspected;

        bench_open(&bench, values);
        inspected = inspect_of(&bench);
        if (instead != NULL)
                json_object_set_new(json_object_get(inspected, "HostConfig"), key, instead);
        else
                json_object_del(json_object_get(inspected, "HostConfig"), key);
        assert_int_equal(container_report(&bench.docker, &bench.wish, inspected, &text, &err), -ENOTSUP);
        assert_contains(err.message, layer);
        assert_true(err.hint[0] != '\0');
        assert_null(text);
        json_decref(inspected);
        bench_close(&bench);
}

#define NONE ((const char *const[]){"option.workspace=none", NULL})

/* ---- tests */

static void test_an_engine_that_does_it_all(void **state) {
        static const char *const applied[] = {"engine",        "container runtime",
                                              "pid namespace", "network namespace",
                                              "root",          "tmp",
                                              "shm",           "workspace",
                                              "ids",           "capabilities",
                                              "no_new_privs",  "seccomp",
                                              "memory",        "cpu",
                                              "pids",          "cgroup namespace"};
        struct bench bench;
        json_t *inspected, *report;

        bench_open(&bench, NONE);
        inspected = inspect_of(&bench);
        report = report_of(&bench, inspected);
        assert_string_equal(json_string_value(json_object_get(report, "backend")), "docker");
        assert_string_equal(json_string_value(json_object_get(report, "isolation")), "container");
        for (size_t i = 0; i < sizeof(applied) / sizeof(applied[0]); i++)
                if (strcmp(state_of(report, applied[i]), "applied") != 0)
                        fail_msg("%s is %s", applied[i], state_of(report, applied[i]));
        assert_string_equal(state_of(report, "user namespace"), "absent");
        assert_string_equal(state_of(report, "apparmor"), "absent");
        json_decref(report);
        json_decref(inspected);
        bench_close(&bench);
}

static void test_engines_that_leave_things_out(void **state) {
        refused_without(NONE, "ReadonlyRootfs", json_false(), "root");
        refused_without(NONE, "ReadonlyRootfs", NULL, "root");
        refused_without(NONE, "CapDrop", NULL, "capabilities");
        refused_without(NONE, "CapAdd", json_pack("[s]", "SYS_ADMIN"), "capabilities");
        refused_without(NONE, "Privileged", json_true(), "capabilities");
        refused_without(NONE, "SecurityOpt", NULL, "no_new_privs");
        refused_without(NONE, "SecurityOpt", json_pack("[s]", "no-new-privileges=false"), "no_new_privs");
        refused_without(NONE, "SecurityOpt", json_pack("[s, s]", "no-new-privileges", "seccomp=unconfined"), "seccomp");
        refused_without(NONE, "NetworkMode", json_string("bridge"), "network");
        refused_without(NONE, "NetworkMode", json_string("host"), "network");
        refused_without(NONE, "PidMode", json_string("host"), "pid namespace");
        refused_without(NONE, "IpcMode", json_string("container:x"), "ipc namespace");
        refused_without(NONE, "UTSMode", json_string("host"), "uts namespace");
        refused_without(NONE, "Memory", json_integer(0), "memory");
        refused_without(NONE, "MemorySwap", json_integer(-1), "memory");
        refused_without(NONE, "NanoCpus", json_integer(0), "cpu");
        refused_without(NONE, "PidsLimit", NULL, "pids");
        refused_without(NONE, "PidsLimit", json_string("128"), "pids");
        refused_without(NONE, "Tmpfs", NULL, "tmp");
        refused_without(NONE, "Tmpfs", json_pack("{s:s}", "/tmp", "rw"), "tmp");
        refused_without(NONE, "ShmSize", json_integer(1), "shm");
        refused_without((const char *const[]){"option.workspace=none", "option.runtime=runsc", NULL}, "Runtime",
                        json_string("runc"), "container runtime");
        refused_without((const char *const[]){"option.workspace=none", "option.userns=auto", NULL}, "UsernsMode", NULL,
                        "user namespace");
}

static void refused_mounts(const char *mounts, const char *layer) {
        struct bench bench;
        struct sbx_error err = {0};
        char *text = NULL;
        json_t *inspected;

        bench_open(&bench, NONE);
        inspected = inspect_of(&bench);
        json_object_set_new(inspected, "Mounts", json_loads(mounts, 0, NULL));
        assert_int_equal(container_report(&bench.docker, &bench.wish, inspected, &text, &err), -ENOTSUP);
        assert_contains(err.message, layer);
        json_decref(inspected);
        bench_close(&bench);
}

static void test_mounts_that_nobody_asked_for(void **state) {
        refused_mounts("[{\"Type\": \"bind\", \"Source\": \"/\", \"Destination\": \"/host\", \"RW\": false}]", "/host");
        refused_mounts("[{\"Type\": \"volume\", \"Source\": \"x\", \"Destination\": \"/data\", \"RW\": true}]",
                       "/data");
        /* Not even at the workspace's place, which is in memory here. */
        refused_mounts("[{\"Type\": \"bind\", \"Source\": \"/\", \"Destination\": \"/workspace\", \"RW\": true}]",
                       "/workspace");
}

static void test_ids(void **state) {
        static const char *const roots[] = {"", "0", "0:5", "root", "root:root"};

        for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
                struct bench bench;
                struct sbx_error err = {0};
                char *text = NULL;
                json_t *inspected;

                bench_open(&bench, NONE);
                inspected = inspect_of(&bench);
                json_object_set_new(json_object_get(inspected, "Config"), "User", json_string(roots[i]));
                assert_int_equal(container_report(&bench.docker, &bench.wish, inspected, &text, &err), -ENOTSUP);
                assert_contains(err.message, "ids");
                json_decref(inspected);
                bench_close(&bench);
        }
}

/* Not the wish: a report of nonsense is refused, whatever was asked for. */
static void test_nonsense(void **state) {
        static const char *const texts[] = {"{}", "[]", "{\"HostConfig\": 1}", "{\"HostConfig\": {\"Tmpfs\": []}}",
                                            "{\"Id\": 5, \"State\": [], \"Mounts\": {}, \"Config\": \"x\"}"};

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                json_t *inspected = json_loads(texts[i], 0, NULL);
                struct bench bench;
                char *text = NULL;

                bench_open(&bench, NONE);
                assert_int_equal(container_report(&bench.docker, &bench.wish, inspected, &text, NULL), -ENOTSUP);
                json_decref(inspected);
                bench_close(&bench);
        }
}

static void test_what_is_off_says_so(void **state) {
        struct bench bench;
        json_t *inspected, *report;

        bench_open(&bench,
                   (const char *const[]){"option.workspace=none", "option.read_only=false", "option.userns=host",
                                         "docker_cpus=0", "option.scope=agent", "option.network=lab", NULL});
        bench.wish.keeper = true;
        inspected = inspect_of(&bench);
        report = report_of(&bench, inspected);
        assert_string_equal(state_of(report, "root"), "off");
        assert_string_equal(state_of(report, "disk"), "off");
        assert_string_equal(state_of(report, "cpu"), "off");
        assert_string_equal(state_of(report, "user namespace"), "off");
        assert_string_equal(state_of(report, "container"), "off");
        assert_string_equal(state_of(report, "network namespace"), "applied");
        json_decref(report);
        json_decref(inspected);
        bench_close(&bench);
}

static const char *tmpfs_at(const json_t *config, const char *path) {
        return json_string_value(
                json_object_get(json_object_get(json_object_get(config, "HostConfig"), "Tmpfs"), path));
}

static void test_what_is_asked_for(void **state) {
        json_t *volumes = json_loads("{\"/data\": {}, \"/tmp\": {}, \"relative\": {}}", 0, NULL), *config, *host;
        const json_t *environment, *item;
        struct bench bench;
        size_t i;

        bench_open(&bench, NONE);
        config = config_of(&bench, volumes);
        host = json_object_get(config, "HostConfig");
        assert_string_equal(json_string_value(json_array_get(json_object_get(config, "Entrypoint"), 2)), "boot");
        assert_string_equal(json_string_value(json_object_get(json_object_get(config, "Labels"), "org.example.a")),
                            "b=c");
        assert_true(json_is_true(json_object_get(config, "NetworkDisabled")));
        assert_string_equal(
                json_string_value(json_array_get(json_object_get(json_object_get(config, "Healthcheck"), "Test"), 0)),
                "NONE");
        assert_null(json_object_get(host, "Binds"));
        assert_contains(tmpfs_at(config, "/data"), "size=67108864"); /* a volume of the image is covered */
        assert_contains(tmpfs_at(config, "/tmp"), "nosuid,nodev");
        assert_null(tmpfs_at(config, "relative"));
        assert_false(json_is_true(json_object_get(host, "AutoRemove")));
        environment = json_object_get(config, "Env");
        json_array_foreach (environment, i, item)
                assert_null(strstr(json_string_value(item), "PATH=/")); /* the image's own */
        json_decref(config);
        json_decref(volumes);
        bench_close(&bench);
}

static void test_a_keeper_gets_its_time(void **state) {
        struct bench bench;
        json_t *config;

        bench_open(&bench,
                   (const char *const[]){"option.workspace=none", "option.scope=shared", "option.ttl=90s", NULL});
        bench.wish.keeper = true;
        config = config_of(&bench, NULL);
        assert_string_equal(json_string_value(json_array_get(json_object_get(config, "Entrypoint"), 3)), "90.000");
        assert_true(json_is_true(json_object_get(json_object_get(config, "HostConfig"), "AutoRemove")));
        assert_false(json_is_true(json_object_get(config, "OpenStdin")));
        json_decref(config);
        bench_close(&bench);
}

static void refused_config(struct bench *bench, int code, const char *what) {
        struct sbx_error err = {0};
        json_t *config = NULL;

        assert_int_equal(container_config(&bench->docker, &bench->wish, NULL, &config, &err), code);
        assert_contains(err.message, what);
        assert_true(err.hint[0] != '\0');
        assert_null(config);
}

static void test_what_is_not_asked_for(void **state) {
        char directory[] = "/tmp/sbx-report-XXXXXX", value[64], path[80];
        struct bench bench;

        assert_non_null(mkdtemp(directory));
        snprintf(value, sizeof(value), "option.workspace_path=%s", directory);
        bench_open(&bench, (const char *const[]){value, NULL});
        snprintf(bench.engine.info.place.address, sizeof(bench.engine.info.place.address), "unix://%s/x.sock",
                 directory);
        refused_config(&bench, -EINVAL, "socket");
        snprintf(bench.engine.info.place.address, sizeof(bench.engine.info.place.address), "unix://%s.sock", directory);
        json_decref(config_of(&bench, NULL)); /* only begins with the same letters */
        rmdir(directory);
        refused_config(&bench, -ENOENT, "workspace");
        bench_close(&bench);

        bench_open(&bench,
                   (const char *const[]){"option.workspace=none", "option.read_only=false", "option.disk=1g", NULL});
        refused_config(&bench, -ENOTSUP, "overlay2");
        bench.engine.info.disk_quota = true;
        json_decref(config_of(&bench, NULL));
        bench_close(&bench);

        snprintf(path, sizeof(path), "option.seccomp=%s", "/dev/zero");
        bench_open(&bench, (const char *const[]){"option.workspace=none", path, NULL});
        refused_config(&bench, -EINVAL, "seccomp");
        bench_close(&bench);
        bench_open(&bench, (const char *const[]){"option.workspace=none", "option.seccomp=/nonexistent", NULL});
        refused_config(&bench, -ENOENT, "seccomp");
        bench_close(&bench);
}

static void test_limits(void **state) {
        struct docker_options options = {
                .memory_bytes = 512 << 20, .memory_max_bytes = UINT64_C(4) << 30, .cpus = 1.5, .pids = 100};
        struct container_limits limits = container_limits_of(&options, &(struct sbx_limits){0});

        assert_int_equal(limits.memory_bytes, 512 << 20);
        assert_int_equal(limits.nano_cpus, 1500000000);
        assert_int_equal(limits.pids, 100);
        limits = container_limits_of(
                &options, &(struct sbx_limits){.memory_bytes = UINT64_MAX, .cpu_percent = 250, .pids_max = 7});
        assert_true(limits.memory_bytes == UINT64_C(4) << 30);
        assert_true(limits.nano_cpus == 2500000000);
        assert_int_equal(limits.pids, 7);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_engine_that_does_it_all),
                cmocka_unit_test(test_engines_that_leave_things_out),
                cmocka_unit_test(test_mounts_that_nobody_asked_for),
                cmocka_unit_test(test_ids),
                cmocka_unit_test(test_nonsense),
                cmocka_unit_test(test_what_is_off_says_so),
                cmocka_unit_test(test_what_is_asked_for),
                cmocka_unit_test(test_a_keeper_gets_its_time),
                cmocka_unit_test(test_what_is_not_asked_for),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
