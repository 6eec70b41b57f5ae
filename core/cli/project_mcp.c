/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of this program in a project's .mcp.json, which MCP clients read. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/project.h"

#define ORIGIN "cli"
#define SERVERS "mcpServers"
#define PROGRAM "snipara-sandbox"
#define FILE_MAX (4u << 20)
#define BUILD_ROOT_VARIABLE "SNIPARA_SANDBOX_BUILD_ROOT"

static bool same_file(const char *path, const char *other) {
        struct stat a, b;

        return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* True when the program's bare name finds this very file, so that the entry works on other machines too. */
static bool is_on_path(const char *self) {
        const char *path = getenv("PATH");

        while (path != NULL && path[0] != '\0') {
                size_t size = strcspn(path, ":");
                _cleanup_free_ char *candidate = NULL;

                if (asprintf(&candidate, "%.*s/" PROGRAM, (int)size, path) < 0) {
                        candidate = NULL;
                        return false;
                }
                if (size > 0 && access(candidate, X_OK) == 0)
                        return same_file(candidate, self);
                path += size + (path[size] == ':');
        }
        return false;
}

static json_t *entry_new(void) {
        _cleanup_free_ char *self = realpath("/proc/self/exe", NULL);
        const char *build_root = getenv(BUILD_ROOT_VARIABLE);
        json_t *entry;

        entry = json_pack("{s:s, s:[s]}", "command", self == NULL || is_on_path(self) ? PROGRAM : self, "args",
                          "mcp-serve");
        /* A program of the build tree finds its plugins by that variable alone. */
        if (entry != NULL && build_root != NULL && build_root[0] != '\0' &&
            json_object_set_new(entry, "env", json_pack("{s:s}", BUILD_ROOT_VARIABLE, build_root)) < 0) {
                json_decref(entry);
                return NULL;
        }
        return entry;
}

static int read_document(int dir_fd, struct sbx_buffer *text, json_t **ret_document, struct sbx_error *err) {
        static const char hint[] = "mend it, or move it away and run this again";
        _cleanup_json_ json_t *document = NULL;
        const json_t *servers;
        int r = sbx_file_read(dir_fd, SBX_CLI_MCP_FILE, FILE_MAX, text, err);

        if (r >= 0)
                r = sbx_json_parse(sbx_buffer_bytes(text), FILE_MAX, SBX_CLI_MCP_FILE, &document, err);
        if (r < 0)
                return r;
        servers = json_object_get(document, SERVERS);
        if (!json_is_object(document))
                return sbx_error_set(err, -EINVAL, ORIGIN, hint, SBX_CLI_MCP_FILE " does not hold a JSON object");
        if (servers != NULL && !json_is_object(servers))
                return sbx_error_set(err, -EINVAL, ORIGIN, hint, SBX_CLI_MCP_FILE ": " SERVERS " is not an object");
        *ret_document = steal_pointer(document);
        return 0;
}

/* 1: the document changed; 0: the entry was there. */
static int add_entry(json_t *document, bool force, struct sbx_error *err) {
        json_t *servers = json_object_get(document, SERVERS);
        _cleanup_json_ json_t *entry = entry_new();
        const json_t *present;

        if (servers == NULL) {
                servers = json_object();
                if (json_object_set_new(document, SERVERS, servers) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        present = json_object_get(servers, PROGRAM);
        if (present != NULL && (!force || json_equal(present, entry)))
                return 0;
        return json_object_set(servers, PROGRAM, entry) < 0 ? SBX_NOMEM(err, ORIGIN) : 1;
}

static int write_document(int dir_fd, const json_t *document, struct sbx_bytes old, mode_t mode,
                          struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(2 * FILE_MAX);
        _cleanup_free_ char *text = json_dumps(document, JSON_INDENT(2));
        int r = 0;

        if (text == NULL || sbx_buffer_printf(&out, "%s\n", text) < 0)
                return SBX_NOMEM(err, ORIGIN);
        if (old.size > 0)
                r = sbx_cli_project_look(dir_fd, SBX_CLI_MCP_FILE ".bak", NULL, err);
        if (r >= 0 && old.size > 0)
                r = sbx_cli_project_write(dir_fd, SBX_CLI_MCP_FILE ".bak", old, mode, true, err);
        return r < 0 ? r
                     : sbx_cli_project_write(dir_fd, SBX_CLI_MCP_FILE, sbx_buffer_bytes(&out), mode, old.size > 0, err);
}

int sbx_cli_project_add_mcp(int dir_fd, bool force, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer old = SBX_BUFFER(FILE_MAX);
        _cleanup_json_ json_t *document = NULL;
        mode_t mode = 0644;
        int r = sbx_cli_project_look(dir_fd, SBX_CLI_MCP_FILE, &mode, err);

        if (r > 0)
                r = read_document(dir_fd, &old, &document, err);
        else if (r == 0)
                document = json_object();
        if (r >= 0)
                r = document != NULL ? add_entry(document, force, err) : SBX_NOMEM(err, ORIGIN);
        if (r <= 0)
                return r;
        r = write_document(dir_fd, document, sbx_buffer_bytes(&old), mode, err);
        return r < 0 ? r : 1;
}
