/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the part of the plugin that brings images, without the core and without a container:
 *
 *      docker-images-host COMMAND... [--option=value] [@setting=value] [$VARIABLE=value] [%directory=path]
 *
 * Commands, one after another: "get=RUNTIME" (prints its image's id), "get-twice=RUNTIME" (two threads at once),
 * "give-up= RUNTIME" (with no time to wait), "forget=RUNTIME", "prepare", "list", "prune", "threads" (how many there
 * are). Progress is printed as "progress: ...", an error as "error CODE: message" and "hint: ...". */
#include <dirent.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin_host.h"

#include "image.h"

static bool begins(const char *text, const char *with) {
        return strncmp(text, with, strlen(with)) == 0;
}

static void print_progress(void *data, const char *message) {
        (void)data;
        printf("progress: %s\n", message);
}

static int tell(int r, const struct sbx_error *err) {
        if (r < 0)
                printf("error %s: %s\nhint: %s\n", strerrorname_np(-r), err->message, err->hint);
        return r;
}

static const struct docker_runtime *find(struct docker *docker, const char *name) {
        for (size_t i = 0; i < docker->options.runtime_count; i++)
                if (strcmp(docker->options.runtimes[i].name, name) == 0)
                        return &docker->options.runtimes[i];
        fprintf(stderr, "there is no runtime %s\n", name);
        exit(2);
}

struct getting {
        struct docker *docker;
        const char *name;
        int result;
};

static void *get(void *data) {
        struct getting *getting = data;
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .progress = print_progress};
        struct sbx_error err = {0};
        char id[IMAGE_ID_MAX];

        getting->result =
                tell(image_get(getting->docker->images, find(getting->docker, getting->name), &call, id, &err), &err);
        if (getting->result == 0)
                printf("id: %s\n", id);
        return NULL;
}

static int get_twice(struct docker *docker, const char *name) {
        struct getting both[2] = {{docker, name, 0}, {docker, name, 0}};
        pthread_t threads[2];

        for (size_t i = 0; i < 2; i++)
                if (pthread_create(&threads[i], NULL, get, &both[i]) != 0)
                        return -EAGAIN;
        for (size_t i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        return both[0].result != 0 ? both[0].result : both[1].result;
}

static int give_up(struct docker *docker, const char *name, bool cancel) {
        int fd = eventfd(cancel ? 1 : 0, EFD_CLOEXEC);
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = fd, .deadline_ns = cancel ? 0 : 1};
        struct sbx_error err = {0};
        char id[IMAGE_ID_MAX];
        int r = image_get(docker->images, find(docker, name), &call, id, &err);

        close(fd);
        tell(r, &err);
        return r < 0 ? 0 : -1;
}

static int count_threads(void) {
        DIR *directory = opendir("/proc/self/task");
        int count = 0;

        while (directory != NULL && readdir(directory) != NULL)
                count++;
        if (directory != NULL)
                closedir(directory);
        printf("threads: %d\n", count - 2);
        return 0;
}

static int ask(struct docker *docker,
               int (*operation)(void *, const struct sbx_call *, struct sbx_output *, struct sbx_error *)) {
        struct sbx_output output = {.max = (size_t)16 << 20};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .progress = print_progress};
        struct sbx_error err = {0};
        int r = tell(operation(docker, &call, &output, &err), &err);

        if (r == 0)
                printf("%s\n", output.data);
        free(output.data);
        return r;
}

static int prepare(struct docker *docker) {
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1, .progress = print_progress};
        struct sbx_error err = {0};

        return tell(docker_prepare(docker, &call, &err), &err);
}

static int run(struct docker *docker, const char *command) {
        struct getting getting = {.docker = docker};

        if (begins(command, "get=")) {
                getting.name = command + 4;
                get(&getting);
                return getting.result;
        }
        if (begins(command, "get-twice="))
                return get_twice(docker, command + 10);
        if (begins(command, "give-up="))
                return give_up(docker, command + 8, false);
        if (begins(command, "cancel="))
                return give_up(docker, command + 7, true);
        if (begins(command, "forget=")) {
                image_forget(docker->images, find(docker, command + 7));
                return 0;
        }
        if (strcmp(command, "prepare") == 0)
                return prepare(docker);
        if (strcmp(command, "list") == 0)
                return ask(docker, docker_images);
        if (strcmp(command, "prune") == 0)
                return ask(docker, docker_images_prune);
        if (strcmp(command, "threads") == 0)
                return count_threads();
        fprintf(stderr, "unknown command: %s\n", command);
        return -EINVAL;
}

static const struct sbx_plugin plugin = {.struct_size = sizeof(plugin), .options = docker_option_table};

int main(int argc, char **argv) {
        struct sbx_host_state state = {.argc = argc, .argv = argv, .plugin = &plugin};
        struct docker docker = {.host = &state.services};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_error err = {0};
        int r;

        setvbuf(stdout, NULL, _IOLBF, 0);
        plugin_host_services(&state);
        pthread_mutex_init(&docker.lock, NULL);
        r = docker_options_read(docker.host, &docker.options, &err);
        if (r == 0)
                r = engine_new(docker.host, &docker.options, &call, &docker.engine, &err);
        if (r == 0)
                r = images_new(&docker, &docker.images, &err);
        tell(r, &err);
        for (int i = 1; i < argc && r == 0; i++)
                if (strchr("-@$%", argv[i][0]) == NULL)
                        r = run(&docker, argv[i]);
        images_free(docker.images);
        engine_free(docker.engine);
        docker_options_free(&docker.options);
        pthread_mutex_destroy(&docker.lock);
        return r == 0 ? 0 : 1;
}
