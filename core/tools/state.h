/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of core/tools: the registry, its threads, and the parts that its files share. */
#pragma once

#include "base/buffer.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/nearest.h"
#include "base/thread.h"
#include "tools/tools.h"

#define SBX_TOOLS_ORIGIN "tools"
#define SBX_TOOL_ARGUMENTS_MAX ((size_t)64 << 20) /* bytes of JSON: 16 MiB of code, escaped */
#define SBX_TOOL_RESULT_MAX ((size_t)64 << 20)
#define SBX_TOOLS_MAX 256u /* tools in a registry */

/* A registered tool. Never changes and lives as long as the registry. */
struct sbx_tool_entry {
        struct sbx_tool tool; /* its texts are this struct's own */
        json_t *schema;
        json_t *listing;                /* what tool_list says of it */
        struct sbx_buffer listing_text; /* the same as JSON */
};

/* ---- progress.c ---- */

#define SBX_BEAT_MESSAGE_SIZE 160

/* The progress of one call: strictly increasing, and with a heartbeat if its tool wants one. */
struct sbx_beat {
        struct sbx_beat *next;
        struct sbx_beats *owner;
        const struct sbx_tool_context *context; /* who is told */
        pthread_mutex_t lock;                   /* protects what follows, and is held while it is told */
        double last_progress, last_total;
        bool counts; /* the tool tells progress of its own; last_message is what it said */
        char last_message[SBX_BEAT_MESSAGE_SIZE];
        uint64_t started_ns;
        uint64_t last_ns;    /* atomic */
        bool listed, in_use; /* protected by owner->lock */
};

struct sbx_beats {
        pthread_mutex_t lock;
        pthread_cond_t wake; /* the thread has something to look at */
        pthread_cond_t idle; /* a beat is not in use any more */
        struct sbx_beat *first;
        pthread_t thread;
        bool runs, stop;
};

int sbx_beats_init(struct sbx_beats *beats);
void sbx_beats_stop(struct sbx_beats *beats);
void sbx_beats_destroy(struct sbx_beats *beats);
/* Between the two, `*ret_context` is `context`, which stays, with a progress function that keeps the rules. A beat of
 * zeroes may be ended. */
void sbx_beat_begin(struct sbx_beats *beats, struct sbx_beat *beat, const struct sbx_tool_context *context,
                    bool heartbeat, struct sbx_tool_context *ret_context);
void sbx_beat_end(struct sbx_beat *beat);

/* ---- threads.c ---- */

/* All protected by `lock`. */
struct sbx_tool_threads {
        pthread_mutex_t lock;
        pthread_cond_t work;                /* something to run, or the end */
        pthread_cond_t ended;               /* a thread has gone */
        struct sbx_tool_task *first, *last; /* queued, oldest first */
        struct sbx_tool_task *running;
        unsigned queued, threads, idle;
        unsigned ordinary;  /* running tasks of tools that are not quick */
        unsigned fresh_max; /* of them, those that have just begun; never changes */
        bool watched;       /* a thread waits until there are fewer of those */
        pthread_t gone;     /* the thread that ended last: the next one to end joins it */
        bool has_gone, stop;
};

int sbx_tool_threads_init(struct sbx_tool_threads *threads);
void sbx_tool_threads_stop(struct sbx_tool_threads *threads);
void sbx_tool_threads_destroy(struct sbx_tool_threads *threads);

/* ---- client.c ---- */

/* What a tool, and who answers another request, gets as its client: what they say is checked, and progress goes where
 * the context says. */
struct sbx_tool_client {
        struct sbx_client client;     /* all its functions are there, whatever the real one's can do */
        const struct sbx_client *own; /* the real one; NULL: nobody that could be asked */
        const struct sbx_tool_context *context;
        const struct sbx_logger *logger;
        bool may_become_task;
        int is_task;  /* -1: not asked for */
        bool refused; /* atomic: `ask` has answered -ENOTSUP */
};
/* Of `context->client`, which may be NULL. `context` stays. */
void sbx_tool_client_init(struct sbx_tool_client *client, const struct sbx_logger *logger,
                          const struct sbx_tool_context *context, bool may_become_task);

/* ---- definition.c ---- */

/* Checks and copies, but for `free_data`. -EINVAL, -ENOMEM. */
int sbx_tool_entry_new(const struct sbx_tool *tool, struct sbx_tool_entry **ret_entry, struct sbx_error *err);
void sbx_tool_entry_free(struct sbx_tool_entry *entry);
static inline void sbx_cleanup_tool_entry(struct sbx_tool_entry **entry) {
        if (*entry != NULL)
                sbx_tool_entry_free(*entry);
}
#define _cleanup_tool_entry_ __attribute__((cleanup(sbx_cleanup_tool_entry)))
int sbx_tools_check_name(const char *name, struct sbx_error *err); /* -EINVAL */

/* ---- context_source.c ---- */

/* A context source, to be asked again when it says that its tools changed. Protected by the lock of the registry. */
struct sbx_tool_source {
        const struct sbx_instance *source; /* NULL: it was not taken after all */
        bool changed;
};
#define SBX_TOOL_SOURCES_MAX 64u
/* Asks those that changed, and adds what is new. What can't be had is told in the log. */
void sbx_tools_refresh(struct sbx_tools *tools);
/* From now on none is asked: they may be closed. */
void sbx_tools_end_refresh(struct sbx_tools *tools);

/* ---- registry.c ---- */

struct sbx_tool_alias {
        char *name;
        struct sbx_tool_entry *entry;
};

/* What the configuration says of one kind of caller. */
struct sbx_tool_patterns {
        char **names; /* a name, or the beginning of names and a `*` */
        size_t count;
};

struct sbx_tools {
        const struct sbx_logger *logger;
        pthread_mutex_t lock; /* protects entries, aliases, sources and their counts; none of them ever goes away */
        struct sbx_tool_entry *entries[SBX_TOOLS_MAX];
        size_t count;
        struct sbx_tool_alias aliases[SBX_TOOLS_MAX];
        size_t alias_count;
        struct sbx_tool_source sources[SBX_TOOL_SOURCES_MAX];
        size_t source_count;
        unsigned changed_sources;                             /* atomic */
        pthread_mutex_t refresh_lock;                         /* held while sources are asked again */
        bool refresh_ended;                                   /* protected by `refresh_lock` */
        struct sbx_tool_patterns allowed[SBX_CALLER_RUN + 1]; /* by caller; set before the first call */
        struct sbx_tool_observer observer;
        struct sbx_metrics *metrics; /* NULL: nobody measures */
        struct sbx_tool_code code;
        struct sbx_tool_requests requests;
        struct sbx_beats beats;
        struct sbx_tool_threads threads;
};

/* By name or alias. NULL: there is none. */
const struct sbx_tool_entry *sbx_tools_find(struct sbx_tools *tools, const char *name);
struct sbx_tool_entry *sbx_tools_find_locked(const struct sbx_tools *tools, const char *name);

/* ---- access.c ---- */

void sbx_tools_free_access(struct sbx_tools *tools); /* aliases and patterns */
/* 0, and `*ret_entry` if that is not NULL; -ENOENT, with the nearest name that the caller may use; -EACCES. */
int sbx_tools_resolve(struct sbx_tools *tools, const char *name, enum sbx_tool_caller caller,
                      const struct sbx_tool_entry **ret_entry, struct sbx_error *err);
/* Arguments from the bytes of a client; none at all is an empty object. -EINVAL. */
int sbx_tools_parse(struct sbx_bytes bytes, json_t **ret_arguments, struct sbx_error *err);
/* Runs a call whole: checks arguments (which it may change), runs the tool, makes errors a result, tells the observer.
 * `context` is a beat's. `*ret_status` is what the tool returned. -ENOMEM, and what ends a call: see sbx_tool. */
int sbx_tools_run(struct sbx_tools *tools, const struct sbx_tool_entry *entry, json_t *arguments,
                  const struct sbx_tool_context *context, int *ret_status, struct sbx_buffer *out_json,
                  struct sbx_error *err);
