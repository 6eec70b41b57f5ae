/* SPDX-License-Identifier: Apache-2.0 */
/* The images that containers are made of. What brings one (asking the engine, pulling, preparing) is a job with a
 * thread of its own: callers wait for it as long as they like, and it goes on without them. */
#include <poll.h>
#include <sys/eventfd.h>

#include "image_internal.h"
#include "util.h"

#define LINE_SIZE 512
#define TICK_MS 100 /* how often whoever waits is told what goes on */

struct job {
        struct job *next;
        struct images *images;
        const struct docker_runtime *runtime;
        bool prepared; /* with what the project needs */
        pthread_t thread;
        int cancel_fd, done_fd; /* readable once it is to end, and once it has */

        /* Protected by images->lock. */
        unsigned users; /* who waits, and the list */
        bool done;
        int result;
        struct sbx_error err;
        char id[IMAGE_ID_MAX];
        char line[LINE_SIZE]; /* what goes on */
        unsigned line_number;
};

struct images {
        struct docker *docker;
        pthread_mutex_t lock;        /* protects what follows */
        struct job *jobs;            /* under way */
        struct job *ended;           /* done, their threads not yet joined */
        char (*known)[IMAGE_ID_MAX]; /* by runtime; "": not looked for yet */
};

bool image_is_prepared(const struct docker *docker, const struct docker_runtime *runtime) {
        const struct docker_options *options = &docker->options;

        return runtime->family != DOCKER_NODE && (options->setup != DOCKER_SETUP_NONE ||
                                                  options->install_command != NULL || options->install_extra_count > 0);
}

/* ---- what a job does, in its thread ---- */

static void job_tell(void *data, const char *message) {
        struct job *job = data;

        DOCKER_LOCKED(&job->images->lock);
        snprintf(job->line, sizeof(job->line), "%s", message);
        sbx_error_trim_(job->line, sizeof(job->line));
        job->line_number++;
}

static int missing(const char *image, struct sbx_error *err) {
        char hint[SBX_ERROR_HINT_MAX];

        snprintf(hint, sizeof(hint),
                 "Bring it by hand (docker pull %.120s, or docker load -i FILE), or set pull = \"missing\".", image);
        return sbx_error_set(err, -ENOENT, DOCKER_ORIGIN, hint,
                             "the engine has no image %s, and the configuration says never to pull one", image);
}

/* The base image is there afterwards. */
static int bring_base(struct docker *docker, const char *image, const struct sbx_call *call,
                      struct image_facts *ret_facts, struct sbx_error *err) {
        const char *pull = docker->options.pull != NULL ? docker->options.pull : "missing";
        struct image_reference reference;
        struct sbx_error own = {0};
        uint64_t begin = monotonic_ns();
        int r = image_reference_parse(image, &reference, err);

        if (r < 0)
                return r;
        r = image_inspect(docker, image, call, ret_facts, &own);
        if (r == 0 && (reference.id || strcmp(pull, "always") != 0))
                return 0;
        if (r < 0 && r != -ENOENT)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        if (reference.id)
                return sbx_error_set(err, -ENOENT, DOCKER_ORIGIN, "'snipara-sandbox image list' shows those that are.",
                                     "the engine has no image with the id %s", image);
        if (strcmp(pull, "never") == 0)
                return missing(image, err);
        docker_log(docker, SBX_LOG_INFO, "pulling the image %s", image);
        r = image_pull(docker, image, call, err);
        if (r < 0)
                return r;
        docker_log(docker, SBX_LOG_INFO, "pulled the image %s in %.1f s", image,
                   (double)(monotonic_ns() - begin) / 1e9);
        return image_inspect(docker, image, call, ret_facts, err);
}

static int bring_prepared(struct docker *docker, const char *base_id, const struct sbx_call *call,
                          struct image_facts *ret_facts, struct sbx_error *err) {
        uint64_t begin = monotonic_ns();
        char name[PREPARED_NAME_MAX];
        struct sbx_error own = {0};
        int r = prepared_name(docker, base_id, name, sizeof(name), err);

        if (r < 0)
                return r;
        r = image_inspect(docker, name, call, ret_facts, &own);
        /* A name can be given to anything; the label is the build's. */
        if (r == 0 && strcmp(ret_facts->prepared, strchr(name, ':') + 1) == 0)
                return 0;
        if (r < 0 && r != -ENOENT)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        docker_log(docker, SBX_LOG_INFO, "preparing the image %s", name);
        r = prepared_build(docker, base_id, name, call, err);
        if (r < 0)
                return r;
        docker_log(docker, SBX_LOG_INFO, "prepared the image %s in %.1f s", name,
                   (double)(monotonic_ns() - begin) / 1e9);
        return image_inspect(docker, name, call, ret_facts, err);
}

static int job_work(struct job *job, char ret_id[IMAGE_ID_MAX], struct sbx_error *err) {
        struct docker *docker = job->images->docker;
        struct sbx_call call = {
                .struct_size = sizeof(call),
                .cancel_fd = job->cancel_fd,
                .deadline_ns = monotonic_ns() + docker->options.build_timeout_ms * UINT64_C(1000000),
                .progress = job_tell,
                .progress_data = job,
        };
        struct sbx_error own = {0};
        struct image_facts facts;
        int r = bring_base(docker, job->runtime->image, &call, &facts, &own);

        if (r == 0 && job->prepared) {
                char base_id[IMAGE_ID_MAX];

                memcpy(base_id, facts.id, sizeof(base_id));
                r = bring_prepared(docker, base_id, &call, &facts, &own);
        }
        if (r == -ETIMEDOUT && monotonic_ns() >= call.deadline_ns)
                return sbx_error_set(err, -EIO, DOCKER_ORIGIN, "Raise build_timeout, or bring the image by hand.",
                                     "the image %s was not ready after %llu s: %s", job->runtime->image,
                                     (unsigned long long)(docker->options.build_timeout_ms / 1000), own.message);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, own.hint, "%s", own.message);
        memcpy(ret_id, facts.id, IMAGE_ID_MAX);
        return 0;
}

/* ---- jobs ---- */

static bool same_work(const struct job *job, const struct docker_runtime *runtime, bool prepared) {
        return job->prepared == prepared && strcmp(job->runtime->image, runtime->image) == 0;
}

/* Moves the job to where its thread is joined from, and lets everybody know. */
static void *job_run(void *data) {
        struct job *job = data;
        struct images *images = job->images;
        const struct docker_options *options = &images->docker->options;
        struct sbx_error err = {0};
        char id[IMAGE_ID_MAX] = "";
        int r = job_work(job, id, &err);

        DOCKER_LOCKED(&images->lock);
        job->result = r;
        job->err = err;
        memcpy(job->id, id, sizeof(id));
        job->done = true;
        for (size_t i = 0; r == 0 && i < options->runtime_count; i++)
                if (same_work(job, &options->runtimes[i], image_is_prepared(images->docker, &options->runtimes[i])))
                        memcpy(images->known[i], id, sizeof(id));
        for (struct job **at = &images->jobs; *at != NULL; at = &(*at)->next)
                if (*at == job) {
                        *at = job->next;
                        break;
                }
        job->next = images->ended;
        images->ended = job;
        eventfd_write(job->done_fd, 1);
        return NULL;
}

static void job_free(struct job *job) {
        if (job->cancel_fd >= 0)
                close(job->cancel_fd);
        if (job->done_fd >= 0)
                close(job->done_fd);
        free(job);
}

static void job_unref(struct images *images, struct job *job) {
        unsigned users;

        pthread_mutex_lock(&images->lock);
        users = --job->users;
        pthread_mutex_unlock(&images->lock);
        if (users == 0)
                job_free(job);
}

/* Joins the threads of jobs that have ended. */
static void collect(struct images *images) {
        struct job *ended;

        pthread_mutex_lock(&images->lock);
        ended = steal_pointer(images->ended);
        pthread_mutex_unlock(&images->lock);
        while (ended != NULL) {
                struct job *job = ended;

                ended = job->next;
                pthread_join(job->thread, NULL);
                job_unref(images, job);
        }
}

/* Lock held. */
static int job_start(struct images *images, const struct docker_runtime *runtime, bool prepared, struct job **ret_job) {
        struct job *job = calloc(1, sizeof(*job));
        int r = 0;

        if (job == NULL)
                return -ENOMEM;
        job->images = images;
        job->runtime = runtime;
        job->prepared = prepared;
        job->users = 1;
        job->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        job->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (job->cancel_fd < 0 || job->done_fd < 0)
                r = -errno;
        if (r == 0)
                r = -pthread_create(&job->thread, NULL, job_run, job);
        if (r < 0) {
                job_free(job);
                return r;
        }
        job->next = images->jobs;
        images->jobs = job;
        *ret_job = job;
        return 0;
}

/* The job under way for the image, or a new one; the caller's to unref. */
static int job_find(struct images *images, const struct docker_runtime *runtime, bool prepared, struct job **ret_job) {
        struct job *job;
        int r = 0;

        DOCKER_LOCKED(&images->lock);
        for (job = images->jobs; job != NULL && !same_work(job, runtime, prepared);)
                job = job->next;
        if (job == NULL)
                r = job_start(images, runtime, prepared, &job);
        if (r < 0)
                return r;
        job->users++;
        *ret_job = job;
        return 0;
}

/* ---- waiting ---- */

static int gave_up(const struct job *job, int code, const char *line, struct sbx_error *err) {
        return sbx_error_set(err, code, DOCKER_ORIGIN,
                             "It goes on: ask again in a while, or bring it ahead with 'snipara-sandbox image build'.",
                             "the image %s is not ready yet: %s", job->runtime->image,
                             line[0] != '\0' ? line : "the engine is being asked");
}

static int time_left_ms(const struct sbx_call *call) {
        uint64_t now = monotonic_ns();

        if (call == NULL || call->deadline_ns == 0)
                return TICK_MS;
        if (call->deadline_ns <= now)
                return 0;
        return call->deadline_ns - now < TICK_MS * UINT64_C(1000000) ? (int)((call->deadline_ns - now) / 1000000) + 1
                                                                     : TICK_MS;
}

/* What goes on, if it is news. */
static void pass_on(struct images *images, struct job *job, const struct sbx_call *call, unsigned *number,
                    char line[LINE_SIZE]) {
        bool news;

        pthread_mutex_lock(&images->lock);
        news = job->line_number != *number;
        *number = job->line_number;
        memcpy(line, job->line, LINE_SIZE);
        pthread_mutex_unlock(&images->lock);
        if (news)
                sbx_call_progress(call, line);
}

static int job_wait(struct images *images, struct job *job, const struct sbx_call *call, char ret_id[IMAGE_ID_MAX],
                    struct sbx_error *err) {
        struct pollfd fds[] = {{.fd = job->done_fd, .events = POLLIN},
                               {.fd = call != NULL ? call->cancel_fd : -1, .events = POLLIN}};
        char line[LINE_SIZE] = "";
        unsigned number = 0;

        for (;;) {
                int left = time_left_ms(call), n = poll(fds, 2, left);

                pass_on(images, job, call, &number, line);
                if (n > 0 && fds[0].revents != 0)
                        break;
                if (n > 0 && fds[1].revents != 0)
                        return gave_up(job, -ECANCELED, line, err);
                if (left == 0)
                        return gave_up(job, -ETIMEDOUT, line, err);
        }
        DOCKER_LOCKED(&images->lock);
        if (job->result < 0)
                return sbx_error_set(err, job->result, DOCKER_ORIGIN, job->err.hint, "%s", job->err.message);
        memcpy(ret_id, job->id, IMAGE_ID_MAX);
        return 0;
}

/* ---- for the other parts ---- */

int images_new(struct docker *docker, struct images **ret_images, struct sbx_error *err) {
        const struct docker_options *options = &docker->options;
        struct images *images = calloc(1, sizeof(*images));

        if (images != NULL)
                images->known = calloc(options->runtime_count + 1, sizeof(*images->known));
        if (images == NULL || images->known == NULL) {
                free(images);
                return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
        }
        images->docker = docker;
        pthread_mutex_init(&images->lock, NULL);
        if (options->workspace == DOCKER_WORKSPACE_RW &&
            (options->setup == DOCKER_SETUP_PACKAGE || options->setup == DOCKER_SETUP_DEV ||
             options->install_command != NULL))
                docker_log(docker, SBX_LOG_WARNING,
                           "code can change the project (workspace = \"rw\"), and so what the next preparation of an "
                           "image runs, with a network; workspace_setup = \"tests-only\" runs nothing of the project");
        *ret_images = images;
        return 0;
}

void images_free(struct images *images) {
        if (images == NULL)
                return;
        for (;;) {
                bool idle;

                pthread_mutex_lock(&images->lock);
                for (struct job *job = images->jobs; job != NULL; job = job->next)
                        eventfd_write(job->cancel_fd, 1);
                idle = images->jobs == NULL;
                pthread_mutex_unlock(&images->lock);
                collect(images);
                if (idle)
                        break;
                poll(NULL, 0, 1);
        }
        pthread_mutex_destroy(&images->lock);
        free(images->known);
        free(images);
}

static size_t index_of(const struct images *images, const struct docker_runtime *runtime) {
        return (size_t)(runtime - images->docker->options.runtimes);
}

static int bring(struct images *images, const struct docker_runtime *runtime, const struct sbx_call *call,
                 char ret_id[IMAGE_ID_MAX], struct sbx_error *err) {
        struct job *job;
        int r;

        collect(images);
        r = job_find(images, runtime, image_is_prepared(images->docker, runtime), &job);
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, NULL, "can't look for the image %s: %s", runtime->image,
                                     strerror(-r));
        r = job_wait(images, job, call, ret_id, err);
        job_unref(images, job);
        collect(images);
        return r;
}

int image_get(struct images *images, const struct docker_runtime *runtime, const struct sbx_call *call,
              char ret_id[IMAGE_ID_MAX], struct sbx_error *err) {
        char id[IMAGE_ID_MAX];
        int r = 0;

        pthread_mutex_lock(&images->lock);
        memcpy(id, images->known[index_of(images, runtime)], sizeof(id));
        pthread_mutex_unlock(&images->lock);
        if (id[0] == '\0')
                r = bring(images, runtime, call, id, err);
        if (r == 0)
                memcpy(ret_id, id, sizeof(id));
        return r;
}

void image_forget(struct images *images, const struct docker_runtime *runtime) {
        DOCKER_LOCKED(&images->lock);
        for (size_t i = 0; i < images->docker->options.runtime_count; i++)
                if (strcmp(images->docker->options.runtimes[i].image, runtime->image) == 0)
                        images->known[i][0] = '\0';
}

int image_refresh(struct images *images, const struct docker_runtime *runtime, const struct sbx_call *call,
                  struct sbx_error *err) {
        char id[IMAGE_ID_MAX];

        return bring(images, runtime, call, id, err);
}
