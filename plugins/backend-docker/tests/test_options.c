/* SPDX-License-Identifier: Apache-2.0 */
/* Options: where each comes from, and what is refused. */
#include "test.h"

#include "fake_host.h"
#include "options_internal.h"

#define VALUES(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int try_read(const char *const *values, struct docker_options *ret_options, struct sbx_error *err) {
        struct sbx_host_state state;
        struct sbx_host host;

        fake_host_init(&host, &state, values);
        return docker_options_read(&host, ret_options, err);
}

static struct docker_options read_options(const char *const *values) {
        struct docker_options options;
        struct sbx_error err = {0};

        if (try_read(values, &options, &err) < 0)
                fail_msg("%s", err.message);
        return options;
}

static void refused(const char *const *values, const char *what) {
        struct docker_options options;
        struct sbx_error err = {0};

        assert_int_equal(try_read(values, &options, &err), -EINVAL);
        assert_contains(err.message, what);
        assert_true(err.hint[0] != '\0');
        assert_string_equal(err.origin, "backend-docker");
}

static void test_defaults(void **state) {
        struct docker_options options = read_options(VALUES());
        const struct docker_runtime *runtime = NULL;

        assert_null(options.engine);
        assert_string_equal(options.network, "none");
        assert_string_equal(options.user, "65534:65534");
        assert_true(options.read_only && options.init_auto);
        assert_int_equal(options.memory_bytes, 512 << 20);
        assert_true(options.cpus == 1.0);
        assert_int_equal(options.pids, 128);
        assert_int_equal(options.workspace, DOCKER_WORKSPACE_RO);
        assert_string_equal(options.workspace_target, "/workspace");
        assert_int_equal(options.setup, DOCKER_SETUP_NONE);
        assert_int_equal(options.scope, DOCKER_SCOPE_SESSION);
        assert_int_equal(options.timeout_ms, 30000);
        assert_int_equal(docker_runtime_find(&options, NULL, NULL, &runtime, NULL), 0);
        assert_string_equal(runtime->image, "python:3.11-slim");
        docker_options_free(&options);
        docker_options_free(&options);
}

static void test_settings_of_the_program(void **state) {
        struct docker_options options = read_options(
                VALUES("docker_image=python:3.12", "docker_cpus=2.5", "docker_memory=1073741824",
                       "docker_network_disabled=false", "docker_mount_workspace=false", "docker_workspace_setup=dev",
                       "docker_workspace_path=/srv/x", "docker_workspace_install_command=make install",
                       "docker_workspace_install_extras=requests>=2,<3, uvicorn[standard,extra] ,attrs"));
        const struct docker_runtime *runtime = NULL;

        assert_int_equal(docker_runtime_find(&options, "bash", NULL, &runtime, NULL), 0);
        assert_string_equal(runtime->image, "python:3.12");
        assert_true(options.cpus == 2.5);
        assert_int_equal(options.memory_bytes, 1 << 30);
        assert_string_equal(options.network, "bridge");
        assert_int_equal(options.workspace, DOCKER_WORKSPACE_NONE);
        assert_string_equal(options.workspace_path, "/srv/x");
        assert_int_equal(options.setup, DOCKER_SETUP_DEV);
        assert_string_equal(options.install_command, "make install");
        assert_int_equal(options.install_extra_count, 3);
        assert_string_equal(options.install_extras[0], "requests>=2,<3");
        assert_string_equal(options.install_extras[1], "uvicorn[standard,extra]");
        assert_string_equal(options.install_extras[2], "attrs");
        docker_options_free(&options);
}

static void test_the_entry_wins(void **state) {
        struct docker_options options = read_options(VALUES(
                "docker_image=a", "option.image=b", "docker_cpus=2", "option.cpus=0.5", "docker_memory=1073741824",
                "option.memory=64m", "docker_network_disabled=true", "option.network=lab",
                "docker_mount_workspace=false", "option.workspace=rw", "option.workspace_path=/srv/y",
                "docker_workspace_path=/srv/x", "docker_workspace_install_extras=a",
                "option.workspace_install_extras=b>1|c", "option.user=owner"));
        const struct docker_runtime *runtime = NULL;

        assert_int_equal(docker_runtime_find(&options, "python", NULL, &runtime, NULL), 0);
        assert_string_equal(runtime->image, "b");
        assert_true(options.cpus == 0.5);
        assert_int_equal(options.memory_bytes, 64 << 20);
        assert_string_equal(options.network, "lab");
        assert_int_equal(options.workspace, DOCKER_WORKSPACE_RW);
        assert_string_equal(options.workspace_path, "/srv/y");
        assert_int_equal(options.install_extra_count, 2);
        assert_string_equal(options.user, "owner");
        docker_options_free(&options);
}

static void test_what_is_refused(void **state) {
        refused(VALUES("option.network=host"), "network");
        refused(VALUES("option.network=container:x"), "network");
        refused(VALUES("option.user=0"), "user");
        refused(VALUES("option.user=0:1"), "user");
        refused(VALUES("option.user=1:0"), "user");
        refused(VALUES("option.user=root"), "user");
        refused(VALUES("option.user=-1"), "user");
        refused(VALUES("option.user=4294967295"), "user");
        refused(VALUES("option.user=99999999999999999999"), "user");
        refused(VALUES("option.user="
                       "owner",
                       "option.workspace=none"),
                "owner");
        refused(VALUES("option.memory=8g"), "memory_max");
        refused(VALUES("docker_memory=512m"), "docker_memory");
        refused(VALUES("docker_cpus=two"), "docker_cpus");
        refused(VALUES("docker_cpus=nan"), "docker_cpus");
        refused(VALUES("option.workspace_path=/"), "whole machine");
        refused(VALUES("option.workspace_path=here"), "workspace_path");
        refused(VALUES("option.workspace_target=/"), "workspace_target");
        refused(VALUES("option.workspace_target=/tmp"), "workspace_target");
        refused(VALUES("option.workspace_target=/proc/x"), "workspace_target");
        refused(VALUES("option.workspace_target=/a/../etc"), "workspace_target");
        refused(VALUES("option.workspace_target=w"), "workspace_target");
        refused(VALUES("option.workspace_target=/a:b"), "workspace_target");
        refused(VALUES("option.runtime=../runc"), "runtime");
        refused(VALUES("option.environment=A=b|SBX_CONTROL_FD=5"), "string 2");
        refused(VALUES("option.environment=A B=c"), "string 1");
        refused(VALUES("option.environment=1A=c"), "string 1");
        refused(VALUES("option.image=--privileged"), "image");
        refused(VALUES("option.image=a b"), "image");
        refused(VALUES("option.runtimes=x"), "runtimes");
        refused(VALUES("option.runtimes=x:perl=image"), "runtimes");
        refused(VALUES("option.runtimes=a/b=image"), "runtimes");
        refused(VALUES("option.workspace_install_extras=--index-url=http://x"), "workspace_install_extras");
}

/* A value may be somebody's secret. */
static void test_values_are_not_told(void **state) {
        struct docker_options options;
        struct sbx_error err = {0};

        assert_int_equal(try_read(VALUES("option.environment=to ken=s3cret"), &options, &err), -EINVAL);
        assert_null(strstr(err.message, "s3cret"));
        assert_null(strstr(err.hint, "s3cret"));
}

static void test_runtimes(void **state) {
        struct docker_options options = read_options(VALUES(
                "option.runtimes=python3.12=reg.example:5000/py@sha256:ab|datasci=big:1|tool:node=n:1|node20=m:2"));
        static const struct {
                const char *runtime, *version, *image;
                enum docker_family family;
        } cases[] = {
                {"python", "3.12", "reg.example:5000/py@sha256:ab", DOCKER_PYTHON},
                {"python", "3.10", "python:3.10-slim", DOCKER_PYTHON},
                {"datasci", NULL, "big:1", DOCKER_PYTHON},
                {"tool", NULL, "n:1", DOCKER_NODE},
                {"node", "20", "m:2", DOCKER_NODE},
                {"node", NULL, "node:22-slim", DOCKER_NODE},
                {"bash", NULL, "python:3.11-slim", DOCKER_BASH},
        };
        const struct docker_runtime *runtime = NULL;
        struct sbx_error err = {0};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(docker_runtime_find(&options, cases[i].runtime, cases[i].version, &runtime, NULL), 0);
                assert_string_equal(runtime->image, cases[i].image);
                assert_int_equal(runtime->family, cases[i].family);
        }
        assert_int_equal(docker_runtime_find(&options, "python", "2.7", &runtime, &err), -ENOENT);
        assert_contains(err.message, "python2.7");
        assert_contains(err.hint, "python3.12");
        assert_contains(err.hint, "datasci");
        docker_options_free(&options);
}

static void test_requirements(void **state) {
        static const char *const good[] = {
                "requests",
                "requests>=2.31",
                "A.b_c-9 == 1.0.*, != 1.0.5",
                "uvicorn[standard]",
                "uvicorn [ standard , x ] ~= 0.1",
                "x(>=1,<2)",
                "x===1.0+local",
                "tomli; python_version < '3.11'",
                "x>1; (sys_platform == \"linux\" and python_version >= '3.9') or os_name not in 'nt'",
                "x[]",
        };
        static const char *const bad[] = {
                "",
                "-r other.txt",
                "--pre",
                "./here",
                "/etc/passwd",
                "x @ https://e.org/x.whl",
                "git+https://e.org/x",
                "https://e.org/x",
                "x; rm -rf /",
                "x && id",
                "x`id`",
                "x$(id)",
                "x | y",
                "x\ny",
                "x>=1 --hash=sha256:0",
                "x>=",
                "x>=-1",
                "x[",
                "x[a",
                "x[-a]",
                "x-",
                "x==1;",
                "x;a",
                "x; a == 'b",
                "x; a == 'b' and",
                "x; ((((((((((a == 'b'))))))))))",
                "x y",
                "x==1 # comment",
                "x==1\\",
                "\xC3\xA4",
        };

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                if (!docker_requirement_ok(good[i]))
                        fail_msg("\"%s\" was refused", good[i]);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (docker_requirement_ok(bad[i]))
                        fail_msg("\"%s\" was taken", bad[i]);
}

static void test_an_old_host(void **state) {
        struct sbx_host_state old_state;
        struct docker_options options;
        struct sbx_error err = {0};
        struct sbx_host host;

        fake_host_init(&host, &old_state, VALUES());
        host.struct_size = offsetof(struct sbx_host, setting);
        assert_int_equal(docker_options_read(&host, &options, &err), -ENOTSUP);
        assert_contains(err.hint, "newer");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_defaults),
                cmocka_unit_test(test_settings_of_the_program),
                cmocka_unit_test(test_the_entry_wins),
                cmocka_unit_test(test_what_is_refused),
                cmocka_unit_test(test_values_are_not_told),
                cmocka_unit_test(test_runtimes),
                cmocka_unit_test(test_requirements),
                cmocka_unit_test(test_an_old_host),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
