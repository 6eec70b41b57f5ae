/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_store.h. Its state is the test's, so it may be global. */
#include "base/thread.h"
#include "fake_store.h"
#include "session/memory_store.h"

#define LEASES_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sbx_memory_store *memory;
static struct sbx_store_ops ops;
static struct {
        char name[128];
        uint64_t token;
} leases[LEASES_MAX];
static size_t lease_count;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool hold;
static unsigned commits, held, slow_ms;
static int commit_failure, get_failure;
static const char *damaged;

static int locked_int(const int *value) {
        SBX_LOCKED(&lock);
        return *value;
}

static int commit(void *instance, const struct sbx_store_change *changes, size_t count, const char *lease,
                  uint64_t token, uint32_t flags, const struct sbx_call *call, struct sbx_error *err) {
        unsigned ms;
        int r;

        pthread_mutex_lock(&lock);
        commits++;
        for (held++; hold;)
                pthread_cond_wait(&released, &lock);
        held--;
        ms = slow_ms;
        r = commit_failure;
        pthread_mutex_unlock(&lock);
        if (ms > 0)
                pause_ms(ms);
        if (r < 0)
                return sbx_error_set(err, r, "fake", "Make room.", "the store failed");
        return sbx_memory_store_ops.commit(instance, changes, count, lease, token, flags, call, err);
}

static int get(void *instance, const char *name, const struct sbx_call *call, struct sbx_output *ret_blob,
               struct sbx_error *err) {
        const char *wrong;
        struct sbx_output *whole = NULL;
        struct sbx_buffer bytes = SBX_BUFFER(SIZE_MAX - 1);
        int r = locked_int(&get_failure);

        if (r < 0)
                return sbx_error_set(err, r, "fake", NULL, "the store can't be read");
        pthread_mutex_lock(&lock);
        wrong = damaged;
        pthread_mutex_unlock(&lock);
        if (wrong == NULL || strstr(name, wrong) == NULL)
                return sbx_memory_store_ops.get(instance, name, call, ret_blob, err);
        if (sbx_output_new(SIZE_MAX - 1, &whole) < 0)
                return -ENOMEM;
        r = sbx_memory_store_ops.get(instance, name, call, whole, err);
        sbx_output_move(whole, &bytes);
        sbx_output_free(whole);
        if (r == 0 && bytes.size > 0) {
                bytes.data[bytes.size / 2] ^= 1;
                r = sbx_output_append(ret_blob, bytes.data, bytes.size);
        }
        sbx_buffer_free(&bytes);
        return r;
}

static int lease_take(void *instance, const char *lease, const char *holder, uint32_t ttl_ms, uint64_t replace_token,
                      const struct sbx_call *call, struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        int r = sbx_memory_store_ops.lease_take(instance, lease, holder, ttl_ms, replace_token, call, ret_lease, err);
        size_t i = 0;

        if (r < 0)
                return r;
        SBX_LOCKED(&lock);
        while (i < lease_count && strcmp(leases[i].name, lease) != 0)
                i++;
        assert_true(i < LEASES_MAX);
        snprintf(leases[i].name, sizeof(leases[i].name), "%s", lease);
        leases[i].token = ret_lease->token;
        if (i == lease_count)
                lease_count++;
        return 0;
}

void fake_store_steal(void) {
        for (size_t i = 0; i < lease_count; i++) {
                struct sbx_store_lease lease = {.struct_size = sizeof(lease)};

                assert_int_equal(sbx_memory_store_ops.lease_take(memory, leases[i].name, "thief", 30000,
                                                                 leases[i].token, NULL, &lease, NULL),
                                 0);
                leases[i].token = lease.token;
        }
}

void fake_store_give_back(void) {
        for (size_t i = 0; i < lease_count; i++)
                (void)sbx_memory_store_ops.lease_release(memory, leases[i].name, leases[i].token, NULL, NULL);
}

void fake_store_open(void) {
        struct sbx_error err = {0};

        fake_guest_reset();
        assert_int_equal(sbx_memory_store_new(UINT64_C(1) << 30, &memory, &err), 0);
        ops = sbx_memory_store_ops;
        ops.commit = commit;
        ops.get = get;
        ops.lease_take = lease_take;
        lease_count = 0;
        commits = slow_ms = 0;
        commit_failure = get_failure = 0;
        damaged = NULL;
        hold = false;
        held = 0;
}

void fake_store_close(void) {
        struct fake_guest_counts counts = fake_guest_counts();

        assert_int_equal(counts.started, counts.freed);
        assert_int_equal(counts.twins, 0);
        sbx_memory_store_free(memory);
        memory = NULL;
}

unsigned fake_store_commits(void) {
        SBX_LOCKED(&lock);
        return commits;
}

void fake_store_fail_commits(int code) {
        SBX_LOCKED(&lock);
        commit_failure = code;
}

void fake_store_fail_gets(int code) {
        SBX_LOCKED(&lock);
        get_failure = code;
}

void fake_store_hold_commits(bool on) {
        SBX_LOCKED(&lock);
        hold = on;
        pthread_cond_broadcast(&released);
}

unsigned fake_store_held(void) {
        SBX_LOCKED(&lock);
        return held;
}

void fake_store_slow_commits(unsigned ms) {
        SBX_LOCKED(&lock);
        slow_ms = ms;
}

void fake_store_damage(const char *part_of_name) {
        SBX_LOCKED(&lock);
        damaged = part_of_name;
}

static int count_item(void *data, const char *name, uint64_t size_bytes) {
        ++*(size_t *)data;
        return 0;
}

size_t fake_store_blobs(void) {
        size_t count = 0;
        const struct sbx_store_events events = {.struct_size = sizeof(events), .data = &count, .item = count_item};

        assert_int_equal(sbx_memory_store_ops.list(memory, "", &events, NULL, NULL), 0);
        return count;
}

void server_open(struct table *server, const char *const *settings) {
        static const char *const impatient[] = {"store_wait=100ms", NULL};

        fake_registry_store(&ops, memory);
        *server = (struct table){.logger = {.level = SBX_LOG_ERROR}};
        server->config = fake_config(settings != NULL ? settings : impatient);
        assert_int_equal(sbx_sessions_new(server->config, NULL, &server->logger, &server->sessions, &server->err), 0);
}

void server_close(struct table *server) {
        sbx_result_free(server->result);
        sbx_sessions_free(server->sessions);
        sbx_config_free(server->config);
}

json_t *kept_by(const struct table *table) {
        return table->result->checkpoint != NULL ? json_loads(table->result->checkpoint, 0, NULL) : NULL;
}
