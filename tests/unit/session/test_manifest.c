/* SPDX-License-Identifier: Apache-2.0 */
/* What a store gives back may be damaged, of another version, or an attacker's: it is refused with its reason, what is
 * not touched by it still works, and it can be destroyed. */
#include "vaults.h"

static void unseal(struct sbx_buffer *manifest) {
        struct sbx_bytes text = {0};

        assert_int_equal(sbx_manifest_unseal(sbx_buffer_bytes(manifest), &text, NULL), 0);
        manifest->size = text.size;
        manifest->data[text.size] = '\0';
}

/* As an attacker would, who knows how a checksum is made. */
static void write_sealed(struct desk *desk, const char *name, struct sbx_bytes text) {
        _cleanup_buffer_ struct sbx_buffer sealed = SBX_BUFFER(2 * SBX_MANIFEST_BYTES_MAX);

        assert_int_equal(sbx_buffer_append(&sealed, text.data, text.size), 0);
        assert_int_equal(sbx_manifest_seal(&sealed, NULL), 0);
        gated_store_write(&desk->store, name, sbx_buffer_bytes(&sealed));
}

/* A session "work" with two checkpoints, closed; its manifest. */
static void prepare(struct desk *desk, struct sbx_buffer *manifest, char **ret_name) {
        struct sbx_vault_identity identity = {.environment = "local", .runtime = "python"};
        struct sbx_vault *vault;

        desk_open(desk, NULL);
        vault = open_vault(desk, "work");
        sbx_vault_identify(vault, &identity);
        add(desk, vault, "one");
        add(desk, vault, "two");
        sbx_vault_close(vault);
        *ret_name = gated_store_find(&desk->store, "/manifest");
        assert_non_null(*ret_name);
        gated_store_read(&desk->store, *ret_name, manifest);
        unseal(manifest);
}

/* The first `from` becomes `to`. */
static void write_changed(struct desk *desk, const char *name, const char *text, const char *from, const char *to) {
        _cleanup_buffer_ struct sbx_buffer changed = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        const char *at = strstr(text, from);

        if (at == NULL)
                fail_msg("'%s' is not in %s", from, text);
        assert_int_equal(sbx_buffer_append(&changed, text, (size_t)(at - text)), 0);
        assert_int_equal(sbx_buffer_append_text(&changed, to), 0);
        assert_int_equal(sbx_buffer_append_text(&changed, at + strlen(from)), 0);
        write_sealed(desk, name, sbx_buffer_bytes(&changed));
}

static int try_open(struct desk *desk) {
        struct sbx_vault *vault = NULL;
        int r;

        desk->err = (struct sbx_error){0};
        r = sbx_vault_open(desk->vaults, "", "work", true, NULL, &vault, &desk->err);
        sbx_vault_close(vault);
        return r;
}

static void test_changed_manifests(void **state) {
        static const struct {
                const char *from, *to;
                int code;
                const char *message;
        } cases[] = {
                {"\"format\":1", "\"format\":2", -EPROTONOSUPPORT, "newer version"},
                {"\"format\":1", "\"format\":0", -EBADMSG, "format"},
                {"\"format\":1", "\"format\":\"1\"", -EBADMSG, "format"},
                {"\"session\":\"work\"", "\"session\":\"play\"", -EBADMSG, "another session's"},
                {"\"principal\":\"\"", "\"principal\":\"bob\"", -EBADMSG, "another session's"},
                {"\"principal\":\"\"", "\"principal\":null", -EBADMSG, "principal"},
                {"\"last\":2", "\"last\":1", -EBADMSG, "last"},
                {"\"last\":2", "\"last\":9223372036854775807", -EBADMSG, "last"},
                {"\"head\":\"c2\"", "\"head\":\"c3\"", -EBADMSG, "tree.head"},
                {"\"head\":\"c2\"", "\"head\":\"../../etc\"", -EBADMSG, "tree.head"},
                {"\"id\":\"c1\"", "\"id\":\"c2\"", -EBADMSG, "above those before"},
                {"\"id\":\"c1\"", "\"id\":\"c01\"", -EBADMSG, "no id"},
                {"\"id\":\"c2\"", "\"id\":\"c1\"", -EBADMSG, "above those before"},
                {"\"parent\":\"c1\"", "\"parent\":\"c2\"", -EBADMSG, "parent"}, /* its own */
                {"\"parent\":\"\"", "\"parent\":\"c2\"", -EBADMSG, "parent"},   /* round in a circle */
                {"\"label\":null", "\"label\":\"a\\u001bb\"", -EBADMSG, "control"},
                {"\"label\":null", "\"label\":7", -EBADMSG, "label"},
                {"\"mechanism\":\"portable\"", "\"mechanism\":\"frozen process\"", -EBADMSG, "mechanism"},
                {"\"mechanism\":\"portable\"", "\"mechanism\":\"magic\"", -EBADMSG, "mechanism"},
                {"\"bytes\":9", "\"bytes\":10", -EBADMSG, "not as large"},
                {"\"bytes\":9", "\"bytes\":-9", -EBADMSG, "bytes"},
                {"\"parts\":2", "\"parts\":0", -EBADMSG, "parts"},
                {"\"parts\":2", "\"parts\":1", -EBADMSG, "parts"},
                {"\"parts\":2", "\"parts\":3", -EBADMSG, "lacks parts"},
                {"\"parts\":2", "\"parts\":4097", -EBADMSG, "parts"},
                {"\"variables\":1", "\"variables\":-1", -EBADMSG, "variables"},
                {"\"names\":[\"x\"]", "\"names\":[7]", -EBADMSG, "names[0]"},
                {"\"names\":[\"x\"]", "\"names\":{\"x\":1}", -EBADMSG, "names"},
                {"\"names\":[\"x\"]", "\"names\":[\"x\"],\"more\":[[[[[[[1]]]]]]]", -EBADMSG, "levels"},
                {"\"reason\":\"it runs\"", "\"reason\":[]", -EBADMSG, "reason"},
                {"\"blobs\":[[\"c1", "\"blobs\":[[\"../c1", -EBADMSG, "blobs[0]"},
                {"\"blobs\":[[\"c1", "\"blobs\":[[\"c1/..", -EBADMSG, "blobs[0]"},
                {"\"blobs\":[[", "\"blobs\":[[\"manifest\",0,\"\"],[", -EBADMSG, "blobs[0]"},
                {"\"blobs\":[[", "\"blobs\":[7,[", -EBADMSG, "blobs[0]"},
                {".0\",3,\"", ".0\",4,\"", -EBADMSG, "not as large"},
                {".0\",3,\"", ".0\",-1,\"", -EBADMSG, "size"},
                {".0\",3,\"", ".0\",3000000000,\"", -EBADMSG, "size"},
                {".0\",3,\"", ".0\",3,\"X", -EBADMSG, "digest"},
                {".0\",3,\"", ".1\",3,\"", -EBADMSG, "listed twice"},
                {"\"c1\":[[0,2]]", "\"c1\":[[0,3]]", -EBADMSG, "not there"},
                {"\"c1\":[[0,2]]", "\"c1\":[[1,-1],[0,2]]", -EBADMSG, "not there"},
                {"\"c1\":[[0,2]]", "\"c1\":[[0,2],[0,9223372036854775807]]", -EBADMSG, "not there"},
                {"\"c1\":[[0,2]]", "\"c1\":[[0,2],[0]]", -EBADMSG, "not there"},
                {"\"c1\":[[0,2]]", "\"c9\":[[0,2]]", -EBADMSG, "no parts"},
                {"\"c1\":[[0,2]]", "\"c1\":[[0,2]],\"c9\":[]", -EBADMSG, "member for each"},
                {"\"identity\":{", "\"identity\":[],\"was\":{", -EBADMSG, "identity"},
                {"\"environment\":\"local\"", "\"environment\":7", -EBADMSG, "environment"},
                {"\"used_ms\":", "\"used_ms\":-", -EBADMSG, "used_ms"},
                {"{\"format\"", "{\"format\":1,\"format\"", -EBADMSG, "damaged"},
                {"{\"format\"", "[\"format\"", -EBADMSG, "damaged"},
        };
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL;

        prepare(&desk, &manifest, &name);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                write_changed(&desk, name, manifest.data, cases[i].from, cases[i].to);
                if (try_open(&desk) != cases[i].code)
                        fail_msg("case %zu, %s for %s: %d, %s", i, cases[i].to, cases[i].from, desk.err.code,
                                 desk.err.message);
                assert_contains(desk.err.message, cases[i].message);
                assert_contains(desk.err.message, "'work'");
                assert_string_not_equal(desk.err.hint, "");
        }
        write_sealed(&desk, name, sbx_buffer_bytes(&manifest));
        assert_int_equal(try_open(&desk), 0);
        desk_close(&desk);
}

/* Wherever a manifest is cut or a byte of it changed: it is refused. With a new checksum what is not refused holds
 * together. */
static void test_every_byte(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL;
        unsigned refused = 0;

        prepare(&desk, &manifest, &name);
        for (size_t i = 0; i < manifest.size; i++) {
                int r;

                write_sealed(&desk, name, (struct sbx_bytes){manifest.data, i});
                assert_int_equal(try_open(&desk), -EBADMSG);
                manifest.data[i] ^= 1;
                write_sealed(&desk, name, sbx_buffer_bytes(&manifest));
                manifest.data[i] ^= 1;
                r = try_open(&desk);
                refused += r < 0;
                assert_true(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT);
        }
        assert_true(refused > manifest.size / 3);
        assert_int_equal(sbx_manifest_seal(&manifest, NULL), 0);
        for (size_t i = 0; i < manifest.size; i++) {
                gated_store_write(&desk.store, name, (struct sbx_bytes){manifest.data, i});
                assert_int_equal(try_open(&desk), -EBADMSG);
                manifest.data[i] ^= 1;
                gated_store_write(&desk.store, name, sbx_buffer_bytes(&manifest));
                manifest.data[i] ^= 1;
                assert_int_equal(try_open(&desk), -EBADMSG);
        }
        desk_close(&desk);
}

static void expect_unreadable(struct desk *desk, const char *id, const char *message) {
        struct sbx_vault *vault = open_vault(desk, "work");
        struct sbx_session_state state = {0};

        assert_int_equal(sbx_vault_read(vault, id, NULL, &state, &desk->err), -EBADMSG);
        assert_contains(desk->err.message, message);
        assert_contains(desk->err.message, id);
        assert_null(state.parts);
        sbx_vault_close(vault);
}

static void test_damaged_parts(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL, *blob = NULL, *other = NULL;
        struct sbx_vault *vault;

        prepare(&desk, &manifest, &name);
        blob = gated_store_find(&desk.store, "c2.1.0");
        other = gated_store_find(&desk.store, "c1.1.0");
        assert_non_null(blob);
        gated_store_write(&desk.store, blob, BYTES("tw"));
        expect_unreadable(&desk, "c2", "not as large as it was");
        gated_store_write(&desk.store, blob, BYTES("twoo"));
        expect_unreadable(&desk, "c2", "not as large as it was");
        gated_store_write(&desk.store, blob, BYTES("twO"));
        expect_unreadable(&desk, "c2", "not what it was");
        gated_store_write(&desk.store, blob, BYTES("one")); /* another one's, whole in itself */
        expect_unreadable(&desk, "c2", "not what it was");
        gated_store_remove(&desk.store, blob);
        expect_unreadable(&desk, "c2", "missing");
        vault = open_vault(&desk, "work");
        assert_holds(&desk, vault, "c1", "one"); /* which has nothing to do with it */
        assert_int_equal(sbx_vault_move(vault, "c1", NULL, &desk.err), 0);
        assert_int_equal(sbx_vault_remove(vault, "c2", NULL, &desk.err), 0);
        assert_string_equal(add(&desk, vault, "three"), "c3");
        sbx_vault_close(vault);
        gated_store_fail(&desk.store, GATE_GET, 1, -EIO);
        vault = open_vault(&desk, "work");
        assert_int_equal(sbx_vault_read(vault, "c1", NULL, &(struct sbx_session_state){0}, &desk.err), -EIO);
        sbx_vault_close(vault);
        desk_close(&desk);
}

static void test_huge_manifest(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL, *huge = malloc(SBX_MANIFEST_BYTES_MAX + 1);

        prepare(&desk, &manifest, &name);
        memset(huge, ' ', SBX_MANIFEST_BYTES_MAX + 1);
        gated_store_write(&desk.store, name, (struct sbx_bytes){huge, SBX_MANIFEST_BYTES_MAX + 1});
        assert_int_equal(try_open(&desk), -EBADMSG);
        assert_contains(desk.err.message, "too large");
        memset(huge, '[', SBX_MANIFEST_BYTES_MAX);
        write_sealed(&desk, name, (struct sbx_bytes){huge, SBX_MANIFEST_BYTES_MAX - 100});
        assert_int_equal(try_open(&desk), -EBADMSG);
        desk_close(&desk);
}

static void test_damaged_is_destroyed(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL;
        char key[SBX_VAULT_KEY_SIZE];
        json_t *list = NULL;

        sbx_vault_key("", "work", key);
        for (unsigned round = 0; round < 2; round++) {
                prepare(&desk, &manifest, &name);
                write_sealed(&desk, name, BYTES("{}"));
                assert_int_equal(sbx_vaults_list(desk.vaults, "bob", NULL, &list, &desk.err), 0);
                assert_int_equal(json_array_size(list), 0);
                json_decref(list);
                assert_int_equal(sbx_vaults_list(desk.vaults, "", NULL, &list, &desk.err), 0);
                assert_int_equal(json_array_size(list), 1);
                assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "id")), key);
                assert_contains(json_string_value(json_object_get(json_array_get(list, 0), "damaged")), "format");
                json_decref(list);
                assert_int_equal(sbx_vaults_destroy(desk.vaults, "bob", key, NULL, NULL), -ENOENT);
                assert_int_equal(sbx_vaults_destroy(desk.vaults, "", round == 0 ? "work" : key, NULL, &desk.err), 0);
                assert_int_equal(gated_store_count(&desk.store), 0);
                desk_close(&desk);
                free(steal_pointer(name));
                sbx_buffer_free(&manifest);
        }
}

/* A key is no name of a session that is whole: it may be somebody else's. */
static void test_key_is_no_name(void **state) {
        struct desk desk;
        struct sbx_vault *vault = NULL;
        char key[SBX_VAULT_KEY_SIZE];

        desk_open(&desk, NULL);
        assert_int_equal(sbx_vault_open(desk.vaults, "bob", "work", true, NULL, &vault, &desk.err), 0);
        add(&desk, vault, "one");
        sbx_vault_close(vault);
        sbx_vault_key("bob", "work", key);
        assert_int_equal(sbx_vaults_destroy(desk.vaults, "", key, NULL, NULL), -ENOENT);
        assert_int_equal(gated_store_count(&desk.store), 3);
        desk_close(&desk);
}

/* What is in no manifest goes, and no session that is whole is touched. */
static void test_leftovers_are_collected(void **state) {
        struct desk desk;
        _cleanup_buffer_ struct sbx_buffer manifest = SBX_BUFFER(SBX_MANIFEST_BYTES_MAX);
        _cleanup_free_ char *name = NULL;
        json_t *told = NULL;

        prepare(&desk, &manifest, &name);
        gated_store_write(&desk.store, "sessions/0123456789abcdef0123456789abcdef01234567/c1.7.0", BYTES("left"));
        assert_int_equal(sbx_vaults_collect(desk.vaults, NULL, 0, NULL, &told, &desk.err), 0);
        assert_int_equal(json_array_size(json_object_get(told, "removed")), 0);
        json_decref(told);
        assert_int_equal(gated_store_count(&desk.store), 4);
        gated_store_remove(&desk.store, name); /* a session that went halfway */
        assert_int_equal(sbx_vaults_collect(desk.vaults, NULL, 0, NULL, &told, &desk.err), 0);
        json_decref(told);
        assert_int_equal(gated_store_count(&desk.store), 0);
        desk_close(&desk);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_changed_manifests),       cmocka_unit_test(test_every_byte),
                cmocka_unit_test(test_damaged_parts),           cmocka_unit_test(test_huge_manifest),
                cmocka_unit_test(test_damaged_is_destroyed),    cmocka_unit_test(test_key_is_no_name),
                cmocka_unit_test(test_leftovers_are_collected),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
