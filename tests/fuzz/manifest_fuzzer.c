/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a store or a file may hold of a session. The first byte says what the rest is: "m", a manifest; else a
 * session's file, behind which the right checksum is put, as an attacker would. What is taken must hold together: it
 * can be written, read again, used and changed. For libFuzzer (-Dfuzzers=true with clang); replay.c runs it on files.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "session/vault_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
        if (!holds)
                abort();
}

/* The sessions of this program are in memory. */
int sbx_registry_get(struct sbx_registry *registry, const char *name, uint32_t kind, const struct sbx_call *call,
                     const struct sbx_instance **ret_instance, struct sbx_error *err) {
        return sbx_error_set(err, -ENOENT, "fuzz", NULL, "there is no store");
}

static void check_tree(const struct sbx_tree *tree) {
        must(tree->count <= SBX_TREE_CHECKPOINTS_MAX);
        must(tree->head[0] == '\0' || sbx_tree_find(tree, tree->head) != NULL);
        for (size_t i = 0; i < tree->count; i++) {
                const struct sbx_checkpoint *at = tree->items[i];
                json_t *json = sbx_checkpoint_json(tree, at);

                must(sbx_tree_find(tree, at->id) == at);
                must(at->parent[0] == '\0' || sbx_tree_find(tree, at->parent) != NULL);
                must(at->part_count > 0 && json != NULL);
                json_decref(json);
        }
}

static void check_manifest(const struct sbx_manifest *manifest) {
        check_tree(&manifest->tree);
        must(manifest->count == manifest->tree.count);
        for (size_t i = 0; i < manifest->count; i++) {
                const struct sbx_parts *parts = manifest->entries[i].parts;

                must(strcmp(manifest->entries[i].id, manifest->tree.items[i]->id) == 0);
                must(parts->count == manifest->tree.items[i]->part_count);
                must(sbx_parts_bytes(parts) == manifest->tree.items[i]->bytes);
                for (size_t j = 0; j < parts->count; j++)
                        must(sbx_blob_name_valid(parts->items[j]->name) && strchr(parts->items[j]->name, '/') == NULL);
        }
}

static void try_manifest(struct sbx_bytes text) {
        _cleanup_buffer_ struct sbx_buffer written = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_manifest_ struct sbx_manifest manifest = {0}, again = {0}, copy = {0};
        struct sbx_manifest_owner owner = {0}, owner_again = {0};
        struct sbx_error err = {0};
        int r = sbx_manifest_decode(text, &manifest, &owner, &err);

        must(r == 0 || ((r == -EBADMSG || r == -EPROTONOSUPPORT || r == -ENOMEM) && err.message[0] != '\0'));
        if (r < 0)
                return;
        check_manifest(&manifest);
        must(sbx_manifest_copy(&manifest, &copy, NULL) == 0);
        must(sbx_manifest_encode(&manifest, owner.principal, owner.session, 0, &written, NULL) == 0);
        must(sbx_manifest_decode(sbx_buffer_bytes(&written), &again, &owner_again, &err) == 0);
        check_manifest(&again);
        must(again.count == manifest.count && strcmp(owner.session, owner_again.session) == 0);
        while (copy.count > 0) { /* from both ends */
                sbx_manifest_remove(&copy, copy.tree.items[copy.count % 2 == 0 ? 0 : copy.count - 1]);
                check_manifest(&copy);
        }
        sbx_manifest_owner_clear(&owner);
        sbx_manifest_owner_clear(&owner_again);
}

static struct sbx_config *make_config(void) {
        static const char *const settings[] = {"store=", NULL};
        char path[] = "/tmp/sbx-fuzz-XXXXXX";
        struct sbx_runtime_options options = {.struct_size = sizeof(options),
                                              .flags = SBX_RUNTIME_NO_ENVIRONMENT,
                                              .config_path = path,
                                              .directory = "/",
                                              .settings = settings};
        struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        struct sbx_config *config = NULL;
        int fd = mkstemp(path);

        must(fd >= 0 && sbx_config_load(&options, &logger, &config, NULL) == 0);
        close(fd);
        unlink(path);
        return config;
}

static struct sbx_vaults *make_vaults(void) {
        static struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static struct sbx_config *config; /* for as long as the program runs */
        struct sbx_vaults *vaults = NULL;

        if (config == NULL)
                config = make_config();
        must(sbx_vaults_new(config, NULL, &logger, &vaults, NULL) == 0);
        return vaults;
}

/* The file, and its checksum. */
static int make_file(struct sbx_bytes bytes) {
        unsigned char digest[SBX_SHA256_SIZE];
        int fd = memfd_create("session", MFD_CLOEXEC);

        sbx_sha256_of(bytes, digest);
        must(fd >= 0 && write(fd, bytes.data, bytes.size) == (ssize_t)bytes.size);
        must(write(fd, digest, sizeof(digest)) == sizeof(digest) && lseek(fd, 0, SEEK_SET) == 0);
        return fd;
}

static void try_file(struct sbx_bytes bytes) {
        struct sbx_vaults *vaults = make_vaults();
        struct sbx_vault *vault = NULL;
        struct sbx_error err = {0};
        int fd = make_file(bytes), r;

        must(sbx_vault_open(vaults, "", "fuzz", true, NULL, &vault, NULL) == 0);
        r = sbx_vault_import(vault, fd, NULL, &err);
        must(r == 0 || err.message[0] != '\0');
        must((r == 0) == (sbx_vault_tree(vault)->count > 0));
        for (size_t i = 0; i < sbx_vault_tree(vault)->count; i++) {
                struct sbx_session_state state = {0};

                must(sbx_vault_read(vault, sbx_vault_tree(vault)->items[i]->id, NULL, &state, NULL) == 0);
                sbx_state_clear(&state);
        }
        close(fd);
        sbx_vault_close(vault);
        sbx_vaults_free(vaults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        if (size == 0)
                return 0;
        if (data[0] == 'm')
                try_manifest((struct sbx_bytes){data + 1, size - 1});
        else
                try_file((struct sbx_bytes){data + 1, size - 1});
        return 0;
}
