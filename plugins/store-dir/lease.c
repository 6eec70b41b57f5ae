/* SPDX-License-Identifier: Apache-2.0 */
/* Takes, renews and gives back leases. The file of one has RECORD bytes and is overwritten in one write(2), so that
 * this needs no room on a full disk:
 *
 *      "sbxlease", version u32, state u32 (1: held, 2: given back), token u64, lifetime in ms u64, end by the holder's
 *      clock since boot in ns u64, boot id (36 bytes), 4 zeros, holder (256 bytes with its NUL), zeros, hash of it all
 *
 * A holder since whose start this machine has not been booted again is judged by the clock since boot, which goes on in
 * suspension and is not set by anybody. Of others, on another machine or before a reboot, the file's time counts,
 * against that of a file made now: both are of the file system's clock, whatever clocks the machines have. If all
 * clocks fail the token still does what matters: who was replaced can't write.
 *
 * A token is one more than the last one and at least the present time in microseconds: so it also grows when the file
 * did not survive a loss of power, or was cleaned away. */
#include "lease.h"

#include <fcntl.h>
#include <inttypes.h>

#include "files.h"
#include "lock.h"

#define RECORD 512u
#define HASHED (RECORD - SEALING_HASH_SIZE)
#define MAGIC "sbxlease"
#define VERSION 1u
#define BOOT_ID 36u
#define HELD 1u
#define GIVEN_BACK 2u
#define TTL_MAX_MS 3600000u
#define UNKNOWN_MS 60000u /* how long a damaged one counts as somebody's */
#define TOKEN_MAX ((uint64_t)1 << 62)
#define TRIES 16
#define CLEAN_AFTER_S (24 * 3600)

struct record {
        uint32_t state;
        uint64_t token, ttl_ms, end_ns;
        char boot[BOOT_ID + 1];
        char holder[256];
};

/* An open and locked lease. */
struct lease_file {
        int fd;
        const char *name;
        char file[NAME_MAX_BYTES + 1];
        struct stat st;
        bool empty, damaged;
        struct record record;
};
#define LEASE_NONE ((struct lease_file){.fd = -1})

static void lease_close(struct lease_file *lease) {
        close_fd(&lease->fd);
}
#define _cleanup_lease_ _cleanup_(lease_close)

/* ---- the record ---- */

static void hash_record(const struct dir_store *store, const char *name, const uint8_t record[RECORD],
                        uint8_t ret_hash[SEALING_HASH_SIZE]) {
        sealing_hash(&store->sealing, "lease", (struct sbx_bytes){name, strlen(name)},
                     (struct sbx_bytes){record, HASHED}, ret_hash);
}

static bool parse_record(const struct dir_store *store, const char *name, const uint8_t bytes[RECORD],
                         struct record *ret_record) {
        uint8_t hash[SEALING_HASH_SIZE];

        hash_record(store, name, bytes, hash);
        if (memcmp(hash, bytes + HASHED, sizeof(hash)) != 0 || memcmp(bytes, MAGIC, 8) != 0 ||
            load_number(bytes + 8, 4) != VERSION)
                return false;
        *ret_record = (struct record){
                .state = (uint32_t)load_number(bytes + 12, 4),
                .token = load_number(bytes + 16, 8),
                .ttl_ms = load_number(bytes + 24, 8),
                .end_ns = load_number(bytes + 32, 8),
        };
        memcpy(ret_record->boot, bytes + 40, BOOT_ID);
        memcpy(ret_record->holder, bytes + 80, sizeof(ret_record->holder));
        return (ret_record->state == HELD || ret_record->state == GIVEN_BACK) && ret_record->token < TOKEN_MAX &&
               ret_record->ttl_ms <= TTL_MAX_MS && ret_record->holder[sizeof(ret_record->holder) - 1] == '\0';
}

static int write_record(const struct dir_store *store, const struct lease_file *lease, const struct record *record,
                        struct sbx_error *err) {
        uint8_t bytes[RECORD] = MAGIC;
        int r;

        store_number(bytes + 8, VERSION, 4);
        store_number(bytes + 12, record->state, 4);
        store_number(bytes + 16, record->token, 8);
        store_number(bytes + 24, record->ttl_ms, 8);
        store_number(bytes + 32, record->end_ns, 8);
        memcpy(bytes + 40, record->boot, BOOT_ID);
        memcpy(bytes + 80, record->holder, sizeof(record->holder));
        hash_record(store, lease->name, bytes, bytes + HASHED);
        r = write_at(lease->fd, bytes, sizeof(bytes), 0);
        return r < 0 ? store_error(store, r, "write", "leases", lease->file, err) : 0;
}

static void read_boot_id(char ret_boot[BOOT_ID + 1]) {
        _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        ssize_t size = fd >= 0 ? read_at(fd, ret_boot, BOOT_ID, 0) : -1;

        ret_boot[size > 0 ? size : 0] = '\0'; /* unknown: the same as nobody's */
}

/* ---- the file ---- */

static int read_lease(const struct dir_store *store, struct lease_file *lease, struct sbx_error *err) {
        uint8_t bytes[RECORD];
        ssize_t size = read_at(lease->fd, bytes, sizeof(bytes), 0);

        if (size < 0)
                return store_error(store, (int)size, "read", "leases", lease->file, err);
        lease->empty = size == 0; /* killed, or without power, before it was written: nobody has had it */
        lease->damaged = size > 0 && (size != RECORD || !parse_record(store, lease->name, bytes, &lease->record));
        return 0;
}

/* Opens and locks a lease. It may have been cleaned away between the two. -ENOENT: it is not there. */
static int open_lease(struct dir_store *store, const char *name, bool create, bool exclusive,
                      const struct sbx_call *call, struct lease_file *ret_lease, struct sbx_error *err) {
        struct stat named;
        int r = 0;

        for (int i = 0; i < TRIES; i++) {
                _cleanup_lease_ struct lease_file lease = {.fd = -1, .name = name};

                name_encode(name, lease.file);
                r = file_open(store->leases_fd, lease.file, O_RDWR | (create ? O_CREAT : 0), &lease.fd, &lease.st);
                if (r == -ENOENT)
                        return r;
                if (r < 0)
                        return store_error(store, r, "open", "leases", lease.file, err);
                r = lock_descriptor(store, lease.fd, exclusive, name, call, err);
                if (r < 0)
                        return r;
                if (fstatat(store->leases_fd, lease.file, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
                    !same_file(&named, &lease.st))
                        continue;
                lease.st = named; /* with the time of the last write */
                r = read_lease(store, &lease, err);
                if (r == 0) {
                        *ret_lease = lease;
                        lease = LEASE_NONE;
                }
                return r;
        }
        return sbx_error_set(err, -EIO, DIR_ORIGIN, NULL, "the lease %s is removed as fast as it is made", name);
}

/* ---- time ---- */

/* The file system's clock in ms; what it is can only be learned by making a file. */
static int file_system_ms(const struct dir_store *store, int64_t *ret_ms) {
        char name[FILE_NAME_RANDOM];
        _cleanup_close_ int fd = -1;
        struct stat st;
        int r;

        file_random_name(name);
        r = file_open(store->tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL, &fd, NULL);
        if (r < 0)
                return r;
        if (write_at(fd, "", 1, 0) < 0 || fstat(fd, &st) < 0)
                r = -EIO;
        (void)unlinkat(store->tmp_fd, name, 0);
        if (r == 0)
                *ret_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
        return r;
}

/* How long a lease goes on of whose holder's clock nothing is known. A file of the future: clocks were set back by who
 * knows how much; by no more than a lifetime is believed. */
static uint32_t remaining_by_file(const struct dir_store *store, const struct lease_file *lease, uint64_t ttl_ms) {
        int64_t then = (int64_t)lease->st.st_mtim.tv_sec * 1000 + lease->st.st_mtim.tv_nsec / 1000000, now = 0;

        /* Whoever can't make a file can't take a lease either. */
        if (file_system_ms(store, &now) < 0)
                return (uint32_t)ttl_ms;
        if (now - then >= (int64_t)ttl_ms || then - now > (int64_t)ttl_ms)
                return 0;
        return now <= then ? (uint32_t)ttl_ms : (uint32_t)((int64_t)ttl_ms - (now - then));
}

static uint32_t remaining_ms(const struct dir_store *store, const struct lease_file *lease) {
        const struct record *record = &lease->record;
        char boot[BOOT_ID + 1];
        uint64_t now;

        if (lease->empty || (!lease->damaged && record->state == GIVEN_BACK))
                return 0;
        if (lease->damaged)
                return remaining_by_file(store, lease, UNKNOWN_MS);
        read_boot_id(boot);
        if (boot[0] == '\0' || strcmp(boot, record->boot) != 0)
                return remaining_by_file(store, lease, record->ttl_ms);
        now = clock_ns(CLOCK_BOOTTIME);
        if (record->end_ns <= now)
                return 0;
        return (record->end_ns - now) / 1000000 < record->ttl_ms ? (uint32_t)((record->end_ns - now) / 1000000) + 1
                                                                 : (uint32_t)record->ttl_ms;
}

/* ---- operations ---- */

static int check_ttl(uint32_t ttl_ms, struct sbx_error *err) {
        if (ttl_ms >= 1 && ttl_ms <= TTL_MAX_MS)
                return 0;
        return sbx_error_set(err, -EINVAL, DIR_ORIGIN, NULL, "a lease lasts 1 to %u ms, not %u", TTL_MAX_MS, ttl_ms);
}

static uint64_t next_token(const struct lease_file *lease) {
        uint64_t now = clock_ns(CLOCK_REALTIME) / 1000, last = lease->empty || lease->damaged ? 0 : lease->record.token;

        return last >= now ? last + 1 : now;
}

static void tell(const struct lease_file *lease, uint32_t remaining, struct sbx_store_lease *ret_lease) {
        size_t size = ret_lease->struct_size;

        if (size >= offsetof(struct sbx_store_lease, remaining_ms) + sizeof(ret_lease->remaining_ms))
                ret_lease->remaining_ms = remaining;
        if (size >= offsetof(struct sbx_store_lease, token) + sizeof(ret_lease->token))
                ret_lease->token = lease->damaged ? 0 : lease->record.token;
        if (size >= offsetof(struct sbx_store_lease, holder) + sizeof(ret_lease->holder))
                snprintf(ret_lease->holder, sizeof(ret_lease->holder), "%s",
                         lease->damaged ? "(the file of the lease is damaged)" : lease->record.holder);
}

static void set_end(struct record *record, uint32_t ttl_ms) {
        record->state = HELD;
        record->ttl_ms = ttl_ms;
        record->end_ns = clock_ns(CLOCK_BOOTTIME) + (uint64_t)ttl_ms * 1000000;
        read_boot_id(record->boot);
}

int store_lease_take(struct dir_store *store, const char *name, const char *holder, uint32_t ttl_ms,
                     uint64_t replace_token, const struct sbx_call *call, struct sbx_store_lease *ret_lease,
                     struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        struct record taken = {0};
        uint32_t remaining;
        int r = name_check(name, "lease", err);

        if (r == 0)
                r = check_ttl(ttl_ms, err);
        if (r == 0 &&
            (holder == NULL || holder[0] == '\0' || strnlen(holder, sizeof(taken.holder)) == sizeof(taken.holder)))
                r = sbx_error_set(err, -EINVAL, DIR_ORIGIN, NULL, "the holder of a lease has 1 to 255 bytes");
        if (r == 0)
                r = store_ready(store, true, err);
        if (r == 0)
                r = open_lease(store, name, true, true, call, &lease, err);
        if (r < 0)
                return r;
        remaining = remaining_ms(store, &lease);
        if (remaining > 0 && (replace_token == 0 || lease.damaged || lease.record.token != replace_token)) {
                tell(&lease, remaining, ret_lease);
                return sbx_error_set(err, -EBUSY, DIR_ORIGIN, NULL, "the lease %s is held for another %u ms by %s",
                                     name, remaining, lease.damaged ? "somebody unknown" : lease.record.holder);
        }
        set_end(&taken, ttl_ms);
        taken.token = next_token(&lease);
        snprintf(taken.holder, sizeof(taken.holder), "%s", holder);
        r = write_record(store, &lease, &taken, err);
        if (r < 0)
                return r;
        lease.record = taken;
        lease.damaged = false;
        tell(&lease, ttl_ms, ret_lease);
        return 0;
}

/* Opens the lease if it is `token`'s. -ESTALE. */
static int open_own(struct dir_store *store, const char *name, uint64_t token, bool exclusive,
                    const struct sbx_call *call, struct lease_file *ret_lease, struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        int r = name_check(name, "lease", err);

        if (r == 0)
                r = store_ready(store, false, err);
        if (r == 0)
                r = open_lease(store, name, false, exclusive, call, &lease, err);
        if (r < 0 && r != -ENOENT)
                return r;
        if (r == -ENOENT || lease.empty || lease.damaged || lease.record.state != HELD || lease.record.token != token)
                return sbx_error_set(err, -ESTALE, DIR_ORIGIN, NULL,
                                     "the lease %s is not held with token %" PRIu64 "%s%s", name, token,
                                     lease.fd >= 0 && !lease.empty && !lease.damaged ? ", last by " : "",
                                     lease.record.holder);
        *ret_lease = lease;
        lease = LEASE_NONE;
        return 0;
}

int store_lease_renew(struct dir_store *store, const char *name, uint64_t token, uint32_t ttl_ms,
                      const struct sbx_call *call, struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        int r = check_ttl(ttl_ms, err);

        if (r == 0)
                r = open_own(store, name, token, true, call, &lease, err);
        if (r < 0)
                return r;
        set_end(&lease.record, ttl_ms);
        return write_record(store, &lease, &lease.record, err);
}

int store_lease_release(struct dir_store *store, const char *name, uint64_t token, const struct sbx_call *call,
                        struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        struct sbx_error stale = {0};
        int r = open_own(store, name, token, true, call, &lease, &stale);

        if (r == -ESTALE)
                return 0;
        if (r < 0)
                return sbx_error_set(err, r, stale.origin, stale.hint, "%s", stale.message);
        lease.record.state = GIVEN_BACK;
        return write_record(store, &lease, &lease.record, err);
}

int store_lease_look(struct dir_store *store, const char *name, const struct sbx_call *call,
                     struct sbx_store_lease *ret_lease, struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        int r = name_check(name, "lease", err);

        if (r == 0)
                r = store_ready(store, false, err);
        if (r == 0)
                r = open_lease(store, name, false, false, call, &lease, err);
        if (r == 0 && (lease.empty || (!lease.damaged && lease.record.state == GIVEN_BACK)))
                r = -ENOENT;
        if (r == -ENOENT)
                return sbx_error_set(err, r, DIR_ORIGIN, NULL, "nobody has the lease %s", name);
        if (r == 0)
                tell(&lease, remaining_ms(store, &lease), ret_lease);
        return r;
}

int lease_hold(struct dir_store *store, const char *name, uint64_t token, const struct sbx_call *call, int *ret_fd,
               struct sbx_error *err) {
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        int r = open_own(store, name, token, false, call, &lease, err);

        if (r == 0)
                *ret_fd = steal_fd(&lease.fd);
        return r;
}

/* ---- cleaning ---- */

struct cleaning {
        struct dir_store *store;
        const struct sbx_call *call;
        int64_t now_ms;
};

static int clean_lease(void *data, int fd, const char *file) {
        const struct cleaning *cleaning = data;
        _cleanup_lease_ struct lease_file lease = LEASE_NONE;
        char name[NAME_MAX_BYTES + 1];

        if (!name_decode(file, name) ||
            open_lease(cleaning->store, name, false, true, cleaning->call, &lease, NULL) < 0)
                return 0;
        if (cleaning->now_ms / 1000 - lease.st.st_mtim.tv_sec > CLEAN_AFTER_S &&
            (lease.empty || (!lease.damaged && lease.record.state == GIVEN_BACK)))
                (void)unlinkat(fd, file, 0);
        return call_check(cleaning->call, NULL);
}

int lease_clean(struct dir_store *store, const struct sbx_call *call, struct sbx_error *err) {
        struct cleaning cleaning = {store, call, 0};
        int r = file_system_ms(store, &cleaning.now_ms);

        if (r == 0)
                r = directory_visit(store->leases_fd, clean_lease, &cleaning);
        return r < 0 ? store_error(store, r, "clean", "leases", NULL, err) : 0;
}
