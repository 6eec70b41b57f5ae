/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal host for backend plugins; see fake_host.h. */
#include "fake_host.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FRAME_HELLO 0x01
#define FRAME_EXEC 0x02
#define FRAME_READY 0x81
#define FRAME_RESULT 0x86
#define PAYLOAD_MAX (64u << 20)

uint64_t fake_clock_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- host services */

static void fake_log(struct sbx_host_state *self, int level, const char *message) {
        if (self->verbose || level <= SBX_LOG_WARNING)
                fprintf(stderr, "# log %d: %s\n", level, message);
}

static const char *text_of(struct sbx_host_state *self, const char *name) {
        for (size_t i = 0; i < self->count; i++)
                if (strcmp(self->names[i], name) == 0)
                        return self->values[i];
        for (const struct sbx_option *option = self->table; option->name != NULL; option++)
                if (strcmp(option->name, name) == 0)
                        return option->default_value;
        fprintf(stderr, "the plugin asked for \"%s\", which is not in its table\n", name);
        abort();
}

static int64_t fake_int(struct sbx_host_state *self, const char *name) {
        const char *text = text_of(self, name);
        char *end = NULL;
        long long value = text == NULL ? 0 : strtoll(text, &end, 10);

        if (end != NULL && *end != '\0')
                value <<= *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
        return value;
}

static int fake_bool(struct sbx_host_state *self, const char *name) {
        const char *text = text_of(self, name);

        return text != NULL && strcmp(text, "true") == 0;
}

static double fake_float(struct sbx_host_state *self, const char *name) {
        return (double)fake_int(self, name);
}

static size_t split_list(struct sbx_host_state *self, const char *name) {
        size_t slot = 0;
        const char *text = text_of(self, name);
        char *copy, *item;

        while (slot < FAKE_SETTINGS_MAX - 1 && self->names[slot] != NULL && strcmp(self->names[slot], name) != 0)
                slot++;
        if (self->names[slot] == NULL) { /* keep the default like a setting, so that it is split once */
                self->names[slot] = strdup(name);
                self->values[slot] = text != NULL ? strdup(text) : NULL;
                self->count = slot + 1;
        }
        if (self->item_counts[slot] > 0 || text == NULL || text[0] == '\0')
                return slot;
        copy = strdup(text);
        for (char *rest = copy; (item = strsep(&rest, ",")) != NULL && self->item_counts[slot] < 64;)
                self->items[slot][self->item_counts[slot]++] = strdup(item);
        free(copy);
        return slot;
}

static size_t fake_count(struct sbx_host_state *self, const char *name) {
        return self->item_counts[split_list(self, name)];
}

static const char *fake_item(struct sbx_host_state *self, const char *name, size_t index) {
        return self->items[split_list(self, name)][index];
}

static uint64_t fake_clock(struct sbx_host_state *self) {
        (void)self;
        return fake_clock_ns();
}

static const char *fake_directory(struct sbx_host_state *self, const char *name) {
        static const char *const names[] = {"libexec", "guests", "plugins", "runtime"};

        for (size_t i = 0; i < 4; i++)
                if (strcmp(names[i], name) == 0)
                        return self->directories[i];
        return NULL;
}

static void make_directories(struct sbx_host_state *self) {
        static const char *const paths[] = {"plugins/backend-local", "guests", "plugins", "run"};

        for (size_t i = 0; i < 4; i++)
                snprintf(self->directories[i], sizeof(self->directories[i]), "%s/%s", self->root, paths[i]);
        mkdir(self->directories[3], 0700);
}

/* ---- life */

static void set(struct sbx_host_state *state, const char *setting) {
        const char *equals = strchr(setting, '=');

        if (equals == NULL || state->count >= FAKE_SETTINGS_MAX) {
                fprintf(stderr, "not a setting: %s\n", setting);
                exit(2);
        }
        state->names[state->count] = strndup(setting, (size_t)(equals - setting));
        state->values[state->count++] = strdup(equals + 1);
}

int fake_open(struct fake_host *fake, const char *root, char **settings, size_t count, struct sbx_error *err) {
        const struct sbx_plugin *(*entry)(void);
        char path[4096];

        fake->state.root = root;
        make_directories(&fake->state);
        snprintf(path, sizeof(path), "%s/plugins/backend-local/backend-local.so", root);
        fake->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (fake->library == NULL)
                return sbx_error_set(err, -ENOENT, "host", NULL, "%s", dlerror());
        *(void **)&entry = dlsym(fake->library, SBX_PLUGIN_ENTRY_SYMBOL);
        if (entry == NULL)
                return sbx_error_set(err, -ENOENT, "host", NULL, "%s", dlerror());
        fake->plugin = entry();
        fake->ops = fake->plugin->ops;
        fake->state.table = fake->plugin->options;
        for (size_t i = 0; i < count; i++)
                set(&fake->state, settings[i]);
        fake->host = (struct sbx_host){
                .struct_size = sizeof(fake->host),
                .abi_major = SBX_ABI_MAJOR,
                .self = &fake->state,
                .instance_name = "local",
                .version = "0",
                .log = fake_log,
                .option_bool = fake_bool,
                .option_int = fake_int,
                .option_float = fake_float,
                .option_string = text_of,
                .option_count = fake_count,
                .option_item = fake_item,
                .clock_ns = fake_clock,
                .directory = fake_directory,
        };
        return fake->plugin->open(&fake->host, &fake->instance, err);
}

void fake_close(struct fake_host *fake) {
        if (fake->instance != NULL)
                fake->plugin->close(fake->instance);
        for (size_t i = 0; i < fake->state.count; i++) {
                free(fake->state.names[i]);
                free(fake->state.values[i]);
                for (size_t j = 0; j < fake->state.item_counts[i]; j++)
                        free(fake->state.items[i][j]);
        }
        if (fake->library != NULL)
                dlclose(fake->library);
        *fake = (struct fake_host){.library = NULL};
}

int fake_start(struct fake_host *fake, struct sbx_guest *guest, struct sbx_error *err) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                      .label = "test",
                                      .runtime = "python",
                                      .limits.struct_size = sizeof(spec.limits)};

        *guest = (struct sbx_guest){
                .struct_size = sizeof(*guest), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        return fake->ops->guest_start(fake->instance, &spec, NULL, guest, err);
}

int fake_fork(struct fake_host *fake, const struct sbx_guest *guest, bool frozen, struct sbx_guest *copy,
              struct sbx_error *err) {
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec),
                                      .label = "test-copy",
                                      .runtime = "python",
                                      .limits.struct_size = sizeof(spec.limits),
                                      .flags = frozen ? SBX_GUEST_FROZEN : 0};

        *copy = (struct sbx_guest){
                .struct_size = sizeof(*copy), .control_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .exit_fd = -1};
        return fake->ops->guest_fork(fake->instance, guest->handle, &spec, NULL, copy, err);
}

void fake_end(struct fake_host *fake, struct sbx_guest *guest) {
        const int fds[] = {guest->control_fd, guest->stdout_fd, guest->stderr_fd, guest->exit_fd};

        if (guest->handle == NULL)
                return;
        fake->ops->guest_kill(fake->instance, guest->handle);
        for (size_t i = 0; i < 4; i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        fake->ops->guest_close(fake->instance, guest->handle);
        guest->handle = NULL;
}

/* A number after `name` in what the kernel tells of a descriptor. */
static int fact_of(int fd, const char *name) {
        char path[64], line[512];
        int value = -1;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
        file = fopen(path, "re");
        while (file != NULL && value < 0 && fgets(line, sizeof(line), file) != NULL)
                if (strncmp(line, name, strlen(name)) == 0)
                        value = (int)strtol(line + strlen(name), NULL, 10);
        if (file != NULL)
                fclose(file);
        return value;
}

pid_t fake_pid_of(const struct sbx_guest *guest) {
        int pid = fact_of(guest->exit_fd, "Pid:");

        if (pid < 0) /* an epoll, of a pidfd of the plugin */
                pid = fact_of(fact_of(guest->exit_fd, "tfd:"), "Pid:");
        return pid > 0 ? pid : 0;
}

/* ---- the protocol */

static int put(int fd, const void *data, size_t size) {
        const char *at = data;

        while (size > 0) {
                ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                at += n;
                size -= (size_t)n;
        }
        return 0;
}

static int get(int fd, void *data, size_t size) {
        char *at = data;

        while (size > 0) {
                ssize_t n = read(fd, at, size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EPIPE;
                at += n;
                size -= (size_t)n;
        }
        return 0;
}

static int send_frame(int fd, unsigned type, const char *json, const char *blob) {
        uint32_t json_size = (uint32_t)strlen(json), size = json_size;
        unsigned char header[5];
        int r;

        if (blob != NULL)
                size += 4 + (uint32_t)strlen(blob);
        memcpy(header, &size, 4);
        header[4] = (unsigned char)type;
        r = put(fd, header, sizeof(header));
        if (r == 0 && blob != NULL)
                r = put(fd, &json_size, 4);
        if (r == 0)
                r = put(fd, json, json_size);
        if (r == 0 && blob != NULL)
                r = put(fd, blob, strlen(blob));
        return r;
}

static int receive_frame(int fd, unsigned *ret_type, char **ret_payload, size_t *ret_size) {
        unsigned char header[5];
        uint32_t size;
        char *payload;
        int r = get(fd, header, sizeof(header));

        if (r < 0)
                return r;
        memcpy(&size, header, 4);
        if (size > PAYLOAD_MAX)
                return -EPROTO;
        payload = calloc(1, (size_t)size + 1);
        if (payload == NULL)
                return -ENOMEM;
        r = get(fd, payload, size);
        if (r < 0) {
                free(payload);
                return r;
        }
        *ret_type = header[4];
        *ret_payload = payload;
        *ret_size = size;
        return 0;
}

int fake_greet(const struct sbx_guest *guest) {
        char *payload = NULL;
        unsigned type = 0;
        size_t size;
        int r = send_frame(guest->control_fd, FRAME_HELLO,
                           "{\"protocol\":1,\"session\":\"test\",\"framed_output\":false}", NULL);

        if (r == 0)
                r = receive_frame(guest->control_fd, &type, &payload, &size);
        free(payload);
        return r == 0 && type != FRAME_READY ? -EPROTO : r;
}

static void drain(int fd, struct fake_output *output) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        char chunk[65536];

        while (poll(&waiting, 1, 0) > 0 && (waiting.revents & POLLIN) != 0) {
                ssize_t n = read(fd, chunk, sizeof(chunk));

                if (n <= 0)
                        return;
                if (output != NULL && (size_t)n < sizeof(output->text) - output->size) {
                        memcpy(output->text + output->size, chunk, (size_t)n);
                        output->size += (size_t)n;
                        output->text[output->size] = '\0';
                }
        }
}

int fake_exec(const struct sbx_guest *guest, const char *code, struct fake_output *output, char **ret_result) {
        struct pollfd fds[3] = {
                {guest->control_fd, POLLIN, 0}, {guest->stdout_fd, POLLIN, 0}, {guest->stderr_fd, POLLIN, 0}};
        unsigned type = 0;
        int r = send_frame(guest->control_fd, FRAME_EXEC,
                           "{\"id\":1,\"filename\":\"<test>\",\"memory_bytes\":0,\"tools\":false}", code);

        while (r == 0 && type != FRAME_RESULT) {
                char *payload = NULL;
                size_t size = 0;

                if (poll(fds, 3, -1) < 0 && errno != EINTR)
                        return -errno;
                drain(guest->stdout_fd, output);
                drain(guest->stderr_fd, output);
                for (int i = 1; i < 3; i++)
                        if ((fds[i].revents & (POLLHUP | POLLERR)) != 0)
                                fds[i].fd = -1;
                if (fds[0].revents == 0)
                        continue;
                r = receive_frame(guest->control_fd, &type, &payload, &size);
                if (r == 0 && type == FRAME_RESULT && size >= 4 && ret_result != NULL) {
                        uint32_t json_size;

                        memcpy(&json_size, payload, 4);
                        *ret_result = strndup(payload + 4, json_size < size - 4 ? json_size : size - 4);
                }
                free(payload);
        }
        drain(guest->stdout_fd, output);
        drain(guest->stderr_fd, output);
        return r;
}
