/* SPDX-License-Identifier: Apache-2.0 */
/* The client of a test, and the tools that it calls. */
#include "test.h"

#include "talk.h"

#include <poll.h>
#include <time.h>

#include "meta.h"

#define WAIT_S 10

_Thread_local int talk_exempt = 1;

/* ---- tools --------------------------------------------------------------------------------------------- */

struct script {
        struct talk *talk;
        size_t task;
        struct mcp_text notes;
};

static void note(struct script *script, const char *name, int status, const char *text) {
        char line[64];

        snprintf(line, sizeof(line), "%s=%d%s", name, status, text != NULL ? ":" : "");
        mcp_text_append_literal(&script->notes, line);
        if (text != NULL)
                mcp_text_append_literal(&script->notes, text);
        mcp_text_append_literal(&script->notes, ";");
}

static void step_ask(struct script *script, const json_t *step) {
        char *requests = json_dumps(json_array_get(step, 1), JSON_COMPACT | JSON_ENCODE_ANY), *responses = NULL;
        struct sbx_error err = {0};
        int r;

        talk_exempt--;
        r = fake_host_ask(&script->talk->fake, script->task, requests, 0, &responses, &err);
        talk_exempt++;
        note(script, "ask", r, r == 0 ? responses : err.message);
        free(requests);
        free(responses);
}

static bool is_cancelled(struct script *script, int timeout_ms) {
        struct pollfd fd = {.fd = script->talk->fake.tasks[script->task].cancel_fd, .events = POLLIN};

        return poll(&fd, 1, timeout_ms) == 1;
}

static void step_gate(struct script *script) {
        sem_post(&script->talk->at_gate);
        while (sem_trywait(&script->talk->gate) < 0)
                if (is_cancelled(script, 1)) {
                        note(script, "gate", -ECANCELED, NULL);
                        return;
                }
}

/* True: the tool has ended. */
static bool run_step(struct script *script, const json_t *step) {
        const char *name = json_string_value(json_array_get(step, 0)), *text;
        struct sbx_host_state *fake = &script->talk->fake;
        const json_t *first = json_array_get(step, 1), *second = json_array_get(step, 2);
        char *value;
        int status;

        if (strcmp(name, "ask") == 0) {
                step_ask(script, step);
        } else if (strcmp(name, "task") == 0) {
                talk_exempt--;
                status = fake_host_become_task(fake, script->task);
                talk_exempt++;
                note(script, "task", status, NULL);
        } else if (strcmp(name, "progress") == 0) {
                fake_host_progress(fake, script->task, json_number_value(first), 0, json_string_value(second));
        } else if (strcmp(name, "log") == 0) {
                value = json_dumps(second, JSON_ENCODE_ANY | JSON_INDENT(2));
                fake_host_log(fake, script->task, json_string_value(first), "test", value);
                free(value);
        } else if (strcmp(name, "close") == 0) {
                fake_host_close_stream(fake, script->task, (uint32_t)json_integer_value(first));
        } else if (strcmp(name, "gate") == 0) {
                step_gate(script);
        } else if (strcmp(name, "cancelled") == 0) {
                (void)is_cancelled(script, WAIT_S * 1000);
        } else if (strcmp(name, "end") == 0) {
                text = json_string_value(second);
                fake_host_end(fake, script->task, (int)json_integer_value(first), text);
                return true;
        } else if (strcmp(name, "result") == 0) {
                value = json_dumps(first, JSON_ENCODE_ANY | JSON_INDENT(1));
                fake_host_end(fake, script->task, 0, value);
                free(value);
                return true;
        } else {
                abort();
        }
        return false;
}

static void end_with_notes(struct script *script) {
        _cleanup_text_ struct mcp_text result = MCP_TEXT(64u << 20);

        mcp_text_append_literal(&result, "{\"content\":[{\"type\":\"text\",\"text\":");
        mcp_text_append_string(&result, script->notes.data, script->notes.size);
        mcp_text_append_literal(&result, "}]}");
        mcp_text_append(&result, "", 1);
        talk_exempt--;
        fake_host_end(&script->talk->fake, script->task, 0, result.data);
        talk_exempt++;
}

static void run_script(struct sbx_host_state *fake, size_t task) {
        struct script script = {fake->script_data, task, MCP_TEXT(32u << 20)};
        json_t *arguments = json_loads(fake->tasks[task].arguments, 0, NULL), *step;
        size_t index;
        bool ended = false;

        json_array_foreach (json_object_get(arguments, "steps"), index, step) {
                if ((ended = run_step(&script, step)))
                        break;
        }
        if (!ended)
                end_with_notes(&script);
        json_decref(arguments);
        mcp_text_free(&script.notes);
}

/* ---- the client ---------------------------------------------------------------------------------------- */

static void keep_message(void *data, const struct mcp_outgoing *message) {
        _cleanup_text_ struct mcp_text text = MCP_TEXT(256u << 20);
        struct talk *talk = data;
        json_error_t error;
        json_t *json;

        for (size_t i = 0; i < message->count; i++)
                mcp_text_append(&text, message->parts[i].data, message->parts[i].size);
        if (memchr(text.data, '\n', text.size) != NULL)
                abort();
        json = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (json == NULL) {
                fprintf(stderr, "not JSON (%s): %.*s\n", error.text, (int)text.size, text.data);
                abort();
        }
        pthread_mutex_lock(&talk->lock);
        json_array_append_new(talk->received, json);
        pthread_cond_broadcast(&talk->came);
        pthread_mutex_unlock(&talk->lock);
}

static void on_send(void *data, const struct mcp_outgoing *message) {
        talk_exempt++;
        keep_message(data, message);
        talk_exempt--;
}

static void on_close_stream(void *data, uint32_t retry_ms) {
        struct talk *talk = data;

        pthread_mutex_lock(&talk->lock);
        talk->closed_streams += retry_ms;
        pthread_mutex_unlock(&talk->lock);
}

static void begin(struct talk *talk) {
        if (mcp_server_new(&talk->settings, &talk->server, NULL) < 0)
                abort();
        talk->connection = talk_connect(talk, NULL);
}

struct talk *talk_new(void) {
        struct talk *talk = calloc(1, sizeof(*talk));

        if (talk == NULL)
                abort();
        fake_host_init(&talk->fake);
        test_directory_make(&talk->state);
        talk->fake.state_directory = talk->state.path;
        talk->fake.tools = TALK_TOOLS;
        talk->fake.script = run_script;
        talk->fake.script_data = talk;
        talk->settings = (struct mcp_settings){
                .host = &talk->fake.services,
                .calls_max = 32,
                .tasks_max = 4,
                .task_ttl_ms = 600000,
                .waiting_max = 4,
                .input_timeout_ms = 600000,
                .page_size = 100,
        };
        talk->channel = (struct mcp_channel){.data = talk, .send = on_send, .close_stream = on_close_stream};
        talk->received = json_array();
        pthread_mutex_init(&talk->lock, NULL);
        pthread_cond_init(&talk->came, NULL);
        sem_init(&talk->gate, 0, 0);
        sem_init(&talk->at_gate, 0, 0);
        begin(talk);
        return talk;
}

struct mcp_connection *talk_connect(struct talk *talk, const char *principal) {
        struct mcp_connection *connection = NULL;

        if (mcp_connection_new(talk->server, MCP_CONNECTION_STREAM, principal != NULL ? principal : "token:a",
                               &connection, NULL) < 0)
                abort();
        mcp_connection_set_channel(connection, &talk->channel);
        return connection;
}

void talk_disconnect(struct talk *talk, struct mcp_connection *connection) {
        mcp_connection_cancel(connection);
        mcp_connection_wait(connection);
        mcp_connection_free(connection);
}

static void end(struct talk *talk) {
        talk_disconnect(talk, talk->connection);
        mcp_server_stop(talk->server);
        mcp_server_free(talk->server);
}

void talk_restart(struct talk *talk) {
        end(talk);
        begin(talk);
}

void talk_free(struct talk *talk) {
        end(talk);
        fake_host_check(&talk->fake);
        fake_host_free(&talk->fake);
        test_directory_remove(&talk->state);
        json_decref(talk->received);
        sem_destroy(&talk->gate);
        sem_destroy(&talk->at_gate);
        pthread_cond_destroy(&talk->came);
        pthread_mutex_destroy(&talk->lock);
        free(talk);
}

void talk_open_gate(struct talk *talk) {
        sem_post(&talk->gate);
}

/* ---- what it says --------------------------------------------------------------------------------------- */

void talk_say_on(struct talk *talk, struct mcp_connection *connection, const char *text) {
        talk_exempt--;
        mcp_connection_receive(connection, text_bytes(text), &talk->channel);
        talk_exempt++;
}

void talk_say(struct talk *talk, const char *text) {
        talk_say_on(talk, talk->connection, text);
}

void talk_request(struct talk *talk, struct mcp_connection *connection, int id, const char *method, const char *params,
                  const char *capabilities) {
        size_t size = strlen(params) + strlen(capabilities) + 512;
        char *text = malloc(size);

        if (text == NULL)
                abort();
        snprintf(text, size,
                 "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":{%s%s\"_meta\":{\"" MCP_META_VERSION
                 "\":\"2026-07-28\",\"" MCP_META_CAPABILITIES "\":%s,\"progressToken\":\"p%d\",\"" MCP_META_LOG_LEVEL
                 "\":\"info\"}}}",
                 id, method, params, params[0] != '\0' ? "," : "", capabilities, id);
        talk_say_on(talk, connection != NULL ? connection : talk->connection, text);
        free(text);
}

void talk_initialize(struct talk *talk, const char *version, const char *capabilities) {
        char text[1024];

        snprintf(text, sizeof(text),
                 "{\"jsonrpc\":\"2.0\",\"id\":9999,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
                 "\"capabilities\":%s,\"clientInfo\":{\"name\":\"talk\",\"version\":\"1\"}}}",
                 version, capabilities);
        talk_say(talk, text);
        json_decref(talk_answer(talk, 9999));
        talk_say(talk, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
}

/* ---- what it hears ------------------------------------------------------------------------------------- */

static bool is_of_method(const json_t *message, const char *method) {
        const char *name = json_string_value(json_object_get(message, "method"));

        return name != NULL && method != NULL && strcmp(name, method) == 0;
}

/* `id` -1: of a request whose id could not be read. */
static bool answers(const json_t *message, int id) {
        const json_t *got = json_object_get(message, "id");

        return json_object_get(message, "method") == NULL &&
               (id < 0 ? json_is_null(got) : json_is_integer(got) && json_integer_value(got) == id);
}

static bool matches(const json_t *message, int id, const char *method) {
        return method != NULL ? is_of_method(message, method) : answers(message, id);
}

/* The caller holds the lock. */
static json_t *take(struct talk *talk, int id, const char *method, bool any) {
        json_t *message;
        size_t index;

        json_array_foreach (talk->received, index, message) {
                if (!matches(message, id, method) && !(any && (answers(message, id) || answers(message, -1))))
                        continue;
                json_incref(message);
                json_array_remove(talk->received, index);
                talk->taken++;
                return message;
        }
        return NULL;
}

static json_t *await(struct talk *talk, int id, const char *method, bool any) {
        struct timespec until;
        json_t *message;
        int r = 0;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += WAIT_S;
        pthread_mutex_lock(&talk->lock);
        while ((message = take(talk, id, method, any)) == NULL && r == 0)
                r = pthread_cond_timedwait(&talk->came, &talk->lock, &until);
        pthread_mutex_unlock(&talk->lock);
        if (message == NULL) {
                char *got = json_dumps(talk->received, JSON_INDENT(1));

                fprintf(stderr, "nothing came for %d %s; but %s\n", id, method != NULL ? method : "", got);
                abort();
        }
        return message;
}

json_t *talk_answer(struct talk *talk, int id) {
        return await(talk, id, NULL, false);
}

json_t *talk_heard(struct talk *talk, const char *method) {
        return await(talk, 0, method, false);
}

json_t *talk_any(struct talk *talk, int id, const char *method) {
        return await(talk, id, method, true);
}

size_t talk_pending(struct talk *talk, int id, const char *method) {
        const json_t *message;
        size_t index, count = 0;

        pthread_mutex_lock(&talk->lock);
        json_array_foreach (talk->received, index, message) {
                count += matches(message, id, method);
        }
        pthread_mutex_unlock(&talk->lock);
        return count;
}

json_t *talk_at(const json_t *message, const char *path) {
        json_t *at = (json_t *)(uintptr_t)message;

        while (at != NULL && *path != '\0') {
                size_t length = strcspn(path, "/");

                if (json_is_array(at))
                        at = json_array_get(at, (size_t)(path[0] - '0'));
                else
                        at = json_object_getn(at, path, length);
                path += length + (path[length] == '/');
        }
        return at;
}

void talk_check(const json_t *message, const char *path, const char *expected) {
        json_t *at = talk_at(message, path);
        char *got = at != NULL ? json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT) : strdup("(nothing)");

        if (strcmp(got, expected) != 0) {
                fprintf(stderr, "%s is %s, not %s, in %s\n", path, got, expected, json_dumps(message, 0));
                abort();
        }
        free(got);
}

void talk_check_answer(struct talk *talk, int id, const char *path, const char *expected) {
        json_t *answer = talk_answer(talk, id);

        talk_check(answer, path, expected);
        json_decref(answer);
}
