/* SPDX-License-Identifier: Apache-2.0 */
/* sbx-docker-reaper: waits for its server to end, and removes what is left of it and of others that ended before.
 *
 * It says nothing to anybody, since the server's standard error may be waited for to be closed; what it could not do is
 * left to the next start, which finds the lock's file. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "locks.h"
#include "reaper.h"
#include "sweep.h"
#include "util.h"

#define SETTLE_MS UINT64_C(10000)   /* a request of the dead server may be under way in the engine for so long */
#define GIVE_UP_MS UINT64_C(900000) /* an engine that does not answer */
#define PAUSE_FIRST_MS 100u
#define PAUSE_MAX_MS 2000u
#define START_ROUNDS 5
#define START_DELAY_MS 250
#define END_ROUNDS 3
#define FORSAKEN_MAX 64
#define FORSAKEN_MS UINT64_C(120000) /* an engine may take so long to make what nobody waits for */
#define FORSAKEN_LOOK_MS 500

struct forsaken {
        char name[REAPER_NAME_MAX]; /* "": none */
        uint64_t until_ns;
};

struct reaper {
        json_t *config;
        struct sbx_host host;
        struct docker_options options;
        const char *owner;
        struct locks *locks;
        struct engine *engine; /* NULL: not reached yet */
        bool watches_process;
        unsigned rounds_left; /* of looking for what others left */
        struct forsaken forsaken[FORSAKEN_MAX];
        size_t forsaken_count; /* so far */
};

/* ---- what the engine's part asks of a host */

static void say_nothing(struct sbx_host_state *self, int level, const char *message) {
        (void)self;
        (void)level;
        (void)message;
}

static uint64_t host_clock_ns(struct sbx_host_state *self) {
        (void)self;
        return monotonic_ns();
}

/* The server copied what may be used. */
static const char *host_environment(struct sbx_host_state *self, const char *name) {
        const char *value = getenv(name);

        (void)self;
        return value != NULL && *value != '\0' ? value : NULL;
}

static const char *host_nothing(struct sbx_host_state *self, const char *name) {
        (void)self;
        (void)name;
        return NULL;
}

static void make_host(struct sbx_host *host) {
        *host = (struct sbx_host){
                .struct_size = sizeof(*host),
                .abi_major = SBX_ABI_MAJOR,
                .abi_minor = SBX_ABI_MINOR,
                .instance_name = REAPER_PROGRAM,
                .version = SBX_VERSION,
                .log = say_nothing,
                .clock_ns = host_clock_ns,
                .directory = host_nothing,
                .setting = host_nothing,
                .environment = host_environment,
        };
}

/* ---- starting */

static json_t *read_config(void) {
        _cleanup_free_ char *text = malloc(REAPER_CONFIG_MAX + 1);
        size_t size = 0;
        ssize_t n = 1;

        while (text != NULL && n > 0 && size <= REAPER_CONFIG_MAX) {
                n = read(REAPER_CONFIG_FD, text + size, REAPER_CONFIG_MAX + 1 - size);
                if (n > 0)
                        size += (size_t)n;
        }
        close(REAPER_CONFIG_FD);
        return text == NULL || n < 0 || size > REAPER_CONFIG_MAX ? NULL
                                                                 : json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
}

static const char *text_of(const struct reaper *reaper, const char *name) {
        return json_string_value(json_object_get(reaper->config, name));
}

static int configure(struct reaper *reaper) {
        const char *directory;

        reaper->config = read_config();
        reaper->owner = text_of(reaper, "owner");
        directory = text_of(reaper, "directory");
        reaper->options.engine = text_of(reaper, "engine");
        reaper->options.tls_ca = text_of(reaper, "tls_ca");
        reaper->options.tls_certificate = text_of(reaper, "tls_certificate");
        reaper->options.tls_key = text_of(reaper, "tls_key");
        reaper->options.timeout_ms = (uint64_t)json_integer_value(json_object_get(reaper->config, "timeout_ms"));
        if (!locks_is_id(reaper->owner) || directory == NULL || reaper->options.engine == NULL ||
            reaper->options.timeout_ms == 0)
                return -EINVAL;
        make_host(&reaper->host);
        return locks_open(directory, &reaper->locks, NULL);
}

/* ---- work */

static int connect_engine(struct reaper *reaper, const struct sbx_call *call) {
        struct sbx_call own = *call;

        if (reaper->engine != NULL)
                return 0;
        own.deadline_ns = monotonic_ns() + reaper->options.timeout_ms * UINT64_C(1000000);
        return engine_reach(&reaper->host, &reaper->options, text_of(reaper, "api_version"), &own, &reaper->engine,
                            NULL);
}

static int one_round(struct reaper *reaper, bool own_ended, bool visit, int cancel_fd, struct sweep_result *result) {
        const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = cancel_fd};
        struct sweep sweep = {
                .locks = reaper->locks,
                .own = reaper->owner,
                .own_ended = own_ended,
                .visit = visit,
                .call = &call,
                .timeout_ms = reaper->options.timeout_ms,
        };
        int r = connect_engine(reaper, &call);

        sweep.engine = reaper->engine;
        return r < 0 ? r : sweep_round(&sweep, result, NULL);
}

/* One step of looking for what servers left that died before this one started. */
static void clean_before(struct reaper *reaper) {
        struct sweep_result result = {0};
        int r = one_round(reaper, false, true, REAPER_SOCKET_FD, &result);

        if (r == -ECANCELED)
                return; /* the server says something: afterwards it goes on */
        reaper->rounds_left = r < 0 || result.removed == 0 ? 0 : reaper->rounds_left - 1;
}

/* ---- containers that nobody waits for */

static void forsake(struct reaper *reaper, const char *name) {
        struct forsaken *one = &reaper->forsaken[reaper->forsaken_count % FORSAKEN_MAX];

        /* Beyond so many the eldest are left to the end of the server. */
        reaper->forsaken_count++;
        snprintf(one->name, sizeof(one->name), "%s", name);
        one->until_ns = monotonic_ns() + FORSAKEN_MS * UINT64_C(1000000);
}

static bool has_forsaken(const struct reaper *reaper) {
        for (size_t i = 0; i < FORSAKEN_MAX; i++)
                if (reaper->forsaken[i].name[0] != '\0')
                        return true;
        return false;
}

/* Each that has come into being, until there is no hope that it will. */
static void look_for_forsaken(struct reaper *reaper) {
        for (size_t i = 0; i < FORSAKEN_MAX; i++) {
                const struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = REAPER_SOCKET_FD};
                struct forsaken *one = &reaper->forsaken[i];
                struct sweep sweep;
                int r;

                if (one->name[0] == '\0' || connect_engine(reaper, &call) < 0)
                        continue;
                sweep = (struct sweep){
                        .engine = reaper->engine,
                        .locks = reaper->locks,
                        .own = reaper->owner,
                        .call = &call,
                        .timeout_ms = reaper->options.timeout_ms,
                };
                r = sweep_name(&sweep, one->name, NULL);
                /* What is there and can't be removed is tried again for as long as the server lives. */
                if (r > 0 || r == -EPERM || (r == 0 && monotonic_ns() >= one->until_ns))
                        one->name[0] = '\0';
        }
}

/* ---- the server */

enum server { SERVER_ALIVE, SERVER_ENDS, SERVER_SILENT, SERVER_DEAD };

static enum server read_message(struct reaper *reaper) {
        char message[REAPER_NAME_MAX + 1];
        ssize_t n = recv(REAPER_SOCKET_FD, message, sizeof(message) - 1, MSG_DONTWAIT);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                return SERVER_SILENT;
        if (n <= 0)
                return SERVER_ALIVE;
        message[n] = '\0';
        if (message[0] == REAPER_END)
                return SERVER_ENDS;
        if (message[0] == REAPER_FORSAKE && message[1] != '\0')
                forsake(reaper, message + 1);
        return SERVER_ALIVE;
}

/* The engine's first moments belong to the server. */
static int wait_ms(const struct reaper *reaper) {
        if (reaper->rounds_left > 0)
                return reaper->rounds_left == START_ROUNDS ? START_DELAY_MS : 0;
        return has_forsaken(reaper) ? FORSAKEN_LOOK_MS : -1;
}

static enum server wait_for_server(struct reaper *reaper) {
        struct pollfd fds[2] = {{.fd = REAPER_SOCKET_FD, .events = POLLIN},
                                {.fd = reaper->watches_process ? REAPER_PIDFD : -1, .events = POLLIN}};

        for (;;) {
                enum server server = SERVER_ALIVE;
                int n = poll(fds, 2, wait_ms(reaper));

                if (n < 0 && errno != EINTR)
                        return SERVER_DEAD;
                if (n > 0 && fds[1].revents != 0)
                        return SERVER_DEAD;
                if (n > 0)
                        server = read_message(reaper);
                else if (n == 0 && reaper->rounds_left > 0)
                        clean_before(reaper);
                else if (n == 0)
                        look_for_forsaken(reaper);
                if (server == SERVER_ENDS || (server == SERVER_SILENT && !reaper->watches_process))
                        return server;
                if (server == SERVER_SILENT) {
                        fds[0].fd = -1; /* its process will tell */
                        reaper->rounds_left = 0;
                }
        }
}

/* ---- its end */

/* The server waits. Its guests are closed, so nothing of it should be there. One that ended before there was time to
 * look for what others left does so now. */
static int clean_at_end(struct reaper *reaper) {
        const bool others = reaper->rounds_left > 0;
        struct sweep_result result = {0};
        int r = 0;

        for (int i = 0; i < END_ROUNDS; i++) {
                r = one_round(reaper, true, others, -1, &result);
                if (r < 0 || (result.removed == 0 && result.left == 0))
                        break;
        }
        return r < 0 || result.left > 0 ? 1 : 0;
}

static int clean_after(struct reaper *reaper);

/* What the server gave up on may come into being after its end: a child looks for it, while the server need not wait.
 */
static int leave_child(struct reaper *reaper) {
        pid_t pid;

        engine_free(reaper->engine); /* two can't share its connections */
        reaper->engine = NULL;
        pid = fork();
        if (pid < 0)
                return 1;
        if (pid > 0)
                return REAPER_GOES_ON;
        close(REAPER_SOCKET_FD);
        return clean_after(reaper);
}

static void pause_ms(unsigned ms) {
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* The server is dead. What it asked the engine for may come into being only now, so it is looked for until nothing was
 * there for a while. */
static int clean_after(struct reaper *reaper) {
        const uint64_t start = monotonic_ns();
        uint64_t quiet_since = start, now = start;
        unsigned pause = PAUSE_FIRST_MS;

        while (now - start < GIVE_UP_MS * UINT64_C(1000000)) {
                struct sweep_result result = {0};
                int r = one_round(reaper, true, true, -1, &result);

                now = monotonic_ns();
                if (r < 0 || result.removed > 0 || result.left > 0)
                        quiet_since = now;
                else if (now - quiet_since >= SETTLE_MS * UINT64_C(1000000)) {
                        locks_forget(reaper->locks, reaper->owner);
                        return 0;
                }
                pause_ms(pause);
                pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
        }
        return 1;
}

/* Its directory may be unmounted, its signals are the server's business, and nobody debugs it. */
static void settle_down(struct reaper *reaper) {
        struct stat st;

        signal(SIGPIPE, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        umask(077);
        reaper->watches_process = fstat(REAPER_PIDFD, &st) == 0;
        syscall(SYS_close_range, REAPER_PIDFD + 1, ~0u, 0);
        fcntl(REAPER_SOCKET_FD, F_SETFD, FD_CLOEXEC);
        fcntl(REAPER_PIDFD, F_SETFD, FD_CLOEXEC);
        if (chdir("/") < 0)
                return;
}

int main(void) {
        struct reaper reaper = {.rounds_left = START_ROUNDS};
        struct stat st;
        enum server server;
        int code = 1;

        if (fstat(REAPER_SOCKET_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
                fprintf(stderr, REAPER_PROGRAM ": a part of snipara-sandbox, which starts it by itself\n");
                return 2;
        }
        settle_down(&reaper);
        if (configure(&reaper) == 0) {
                server = wait_for_server(&reaper);
                code = server == SERVER_ENDS ? clean_at_end(&reaper) : clean_after(&reaper);
                if (server == SERVER_ENDS && code == 0 && has_forsaken(&reaper))
                        code = leave_child(&reaper);
        }
        engine_free(reaper.engine);
        locks_free(reaper.locks);
        json_decref(reaper.config);
        return code;
}
