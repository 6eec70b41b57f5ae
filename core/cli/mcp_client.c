/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration files of MCP clients, and the entry of this program in them. */
#include "cli/mcp_client.h"

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
#define PROGRAM "snipara-sandbox"
#define FILE_MAX (4u << 20)
#define BUILD_ROOT_VARIABLE "SNIPARA_SANDBOX_BUILD_ROOT"

static const struct sbx_cli_mcp_client clients[] = {
        {
                .name = "claude-code",
                .title = "Claude Code",
                .file = ".mcp.json",
                .path = ".mcp.json",
                .servers = "mcpServers",
                .variable = "${%s}",
                .next = "Restart Claude Code in this directory; it asks once whether it may use the new server.",
        },
        {
                .name = "claude-desktop",
                .title = "Claude Desktop",
                .directory = "Claude",
                .file = "claude_desktop_config.json",
                .path = "Claude/claude_desktop_config.json",
                .servers = "mcpServers",
                .local_only = true,
                .of_user = true,
                .next = "Quit Claude Desktop and start it again.",
        },
        {
                .name = "cursor",
                .title = "Cursor",
                .directory = ".cursor",
                .file = "mcp.json",
                .path = ".cursor/mcp.json",
                .servers = "mcpServers",
                .variable = "${env:%s}",
                .url_only = true,
                .next = "Open this directory in Cursor and switch the server on under Settings, MCP.",
        },
        {
                .name = "vscode",
                .title = "VS Code",
                .directory = ".vscode",
                .file = "mcp.json",
                .path = ".vscode/mcp.json",
                .servers = "servers",
                .variable = "${env:%s}",
                .typed = true,
                .next = "Open this directory in VS Code; it offers to start the server above its entry in "
                        ".vscode/mcp.json.",
        },
};

const struct sbx_cli_mcp_client *sbx_cli_mcp_client_at(size_t index) {
        return index < sizeof(clients) / sizeof(clients[0]) ? &clients[index] : NULL;
}

int sbx_cli_mcp_client_find(const char *name, const struct sbx_cli_mcp_client **ret_client, struct sbx_error *err) {
        for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
                if (strcmp(clients[i].name, name) == 0) {
                        *ret_client = &clients[i];
                        return 0;
                }
        return sbx_error_set(
                err, -EINVAL, ORIGIN,
                "clients are: claude-code, claude-desktop, cursor, vscode; for another one, copy the entry "
                "that --client claude-code writes",
                "no client '%.40s' is known", name);
}

/* ---- the entry ---- */

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

static json_t *stdio_entry(const struct sbx_cli_mcp_client *client) {
        _cleanup_free_ char *self = realpath("/proc/self/exe", NULL);
        const char *build_root = getenv(BUILD_ROOT_VARIABLE);
        _cleanup_json_ json_t *entry = json_object();
        bool bare = self == NULL || (!client->of_user && is_on_path(self));

        if (client->typed)
                json_object_set_new(entry, "type", json_string("stdio"));
        if (json_object_set_new(entry, "command", json_string(bare ? PROGRAM : self)) < 0 ||
            json_object_set_new(entry, "args", json_pack("[s]", "mcp-serve")) < 0)
                return NULL;
        /* A program of the build tree finds its plugins by that variable alone. */
        if (build_root != NULL && build_root[0] != '\0' &&
            json_object_set_new(entry, "env", json_pack("{s:s}", BUILD_ROOT_VARIABLE, build_root)) < 0)
                return NULL;
        return steal_pointer(entry);
}

static json_t *url_entry(const struct sbx_cli_mcp_client *client, const struct sbx_cli_mcp_entry *want) {
        _cleanup_buffer_ struct sbx_buffer header = SBX_BUFFER(4096);
        _cleanup_json_ json_t *entry = json_object();
        const char *mark;

        if (!client->url_only)
                json_object_set_new(entry, "type", json_string("http"));
        if (json_object_set_new(entry, "url", json_string(want->url)) < 0)
                return NULL;
        if (want->token_variable == NULL)
                return steal_pointer(entry);
        mark = strstr(client->variable, "%s");
        if (sbx_buffer_printf(&header, "Bearer %.*s%s%s", (int)(mark - client->variable), client->variable,
                              want->token_variable, mark + 2) < 0 ||
            json_object_set_new(entry, "headers", json_pack("{s:s}", "Authorization", header.data)) < 0)
                return NULL;
        return steal_pointer(entry);
}

int sbx_cli_mcp_entry_check(const struct sbx_cli_mcp_client *client, const struct sbx_cli_mcp_entry *want,
                            struct sbx_error *err) {
        static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
        const char *variable = want->token_variable;

        if (want->url == NULL && variable != NULL)
                return sbx_error_set(err, -EINVAL, ORIGIN, "give --url as well, or leave --token-variable out",
                                     "a token is for a server with a URL");
        if (want->url == NULL)
                return 0;
        if (client->local_only)
                return sbx_error_set(err, -EINVAL, ORIGIN,
                                     "leave --url out, or add the address as a connector in the client's settings",
                                     "the configuration file of %s takes no servers with a URL", client->title);
        if (strncmp(want->url, "http://", 7) != 0 && strncmp(want->url, "https://", 8) != 0)
                return sbx_error_set(err, -EINVAL, ORIGIN, "as 'mcp-serve --http' prints it: http://127.0.0.1:8000/mcp",
                                     "'%.80s' is no http or https address", want->url);
        if (variable != NULL && (variable[0] == '\0' || strchr(first, variable[0]) == NULL ||
                                 variable[strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                                                           "0123456789")] != '\0'))
                return sbx_error_set(err, -EINVAL, ORIGIN,
                                     "give the name of a variable, not the token: nothing secret belongs into the file",
                                     "--token-variable is no name of an environment variable");
        return 0;
}

/* ---- the directory ---- */

/* The user's configuration directory, made if it is not there. */
static int open_user_directory(char **ret_path, struct sbx_error *err) {
        const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
        int fd;

        if (asprintf(ret_path, "%s%s",
                     base != NULL && base[0] == '/' ? base
                     : home != NULL                 ? home
                                                    : "",
                     base != NULL && base[0] == '/' ? "" : "/.config") < 0) {
                *ret_path = NULL;
                return SBX_NOMEM(err, ORIGIN);
        }
        if (mkdir(*ret_path, 0700) < 0 && errno != EEXIST)
                return sbx_error_set(err, -errno, ORIGIN, "set HOME or XDG_CONFIG_HOME", "can't make %s: %s", *ret_path,
                                     SBX_ERRNO_TEXT(-errno));
        fd = open(*ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 ? fd
                       : sbx_error_set(err, -errno, ORIGIN, NULL, "can't open %s: %s", *ret_path,
                                       SBX_ERRNO_TEXT(-errno));
}

static int open_below(int base_fd, const char *name, mode_t mode, struct sbx_error *err) {
        int fd;

        if (mkdirat(base_fd, name, mode) < 0 && errno != EEXIST)
                return sbx_error_set(err, -errno, ORIGIN, NULL, "can't make the directory %s: %s", name,
                                     SBX_ERRNO_TEXT(-errno));
        fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
                return sbx_error_set(err, -errno, ORIGIN, "replace it by a directory, or change the file by hand",
                                     "%s is a symbolic link or no directory; nothing is written through it", name);
        return fd >= 0 ? fd
                       : sbx_error_set(err, -errno, ORIGIN, NULL, "can't open the directory %s: %s", name,
                                       SBX_ERRNO_TEXT(-errno));
}

/* Of the client's file. A descriptor; `*ret_path` is how people call the file. */
static int open_directory(const struct sbx_cli_mcp_client *client, int project_fd, char **ret_path,
                          struct sbx_error *err) {
        _cleanup_free_ char *user = NULL;
        _cleanup_close_ int base =
                client->of_user ? open_user_directory(&user, err) : fcntl(project_fd, F_DUPFD_CLOEXEC, 3);

        if (base < 0)
                return sbx_error_set(err, base, ORIGIN, NULL, "the directory can't be opened: %s",
                                     SBX_ERRNO_TEXT(-errno));
        if (asprintf(ret_path, "%s%s%s", user != NULL ? user : "", user != NULL ? "/" : "", client->path) < 0) {
                *ret_path = NULL;
                return SBX_NOMEM(err, ORIGIN);
        }
        return client->directory == NULL ? steal_fd(&base)
                                         : open_below(base, client->directory, client->of_user ? 0700 : 0755, err);
}

/* ---- the file ---- */

static int read_document(const struct sbx_cli_mcp_client *client, int dir_fd, struct sbx_buffer *text,
                         json_t **ret_document, struct sbx_error *err) {
        static const char hint[] = "mend it (comments are not JSON), or move it away and run this again";
        _cleanup_json_ json_t *document = NULL;
        const json_t *servers;
        int r = sbx_file_read(dir_fd, client->file, FILE_MAX, text, err);

        if (r >= 0)
                r = sbx_json_parse(sbx_buffer_bytes(text), FILE_MAX, client->path, &document, err);
        if (r < 0)
                return r;
        servers = json_object_get(document, client->servers);
        if (!json_is_object(document))
                return sbx_error_set(err, -EINVAL, ORIGIN, hint, "%s does not hold a JSON object", client->path);
        if (servers != NULL && !json_is_object(servers))
                return sbx_error_set(err, -EINVAL, ORIGIN, hint, "%s: %s is not an object", client->path,
                                     client->servers);
        *ret_document = steal_pointer(document);
        return 0;
}

/* 1: the document changed; 0: the entry was there. */
static int add_entry(json_t *document, const struct sbx_cli_mcp_client *client, const struct sbx_cli_mcp_entry *want,
                     struct sbx_error *err) {
        json_t *servers = json_object_get(document, client->servers);
        _cleanup_json_ json_t *entry = want->url != NULL ? url_entry(client, want) : stdio_entry(client);
        const json_t *present;

        if (servers == NULL) {
                servers = json_object();
                if (json_object_set_new(document, client->servers, servers) < 0)
                        return SBX_NOMEM(err, ORIGIN);
        }
        present = json_object_get(servers, PROGRAM);
        if (present != NULL && (!want->force || json_equal(present, entry)))
                return 0;
        return json_object_set(servers, PROGRAM, entry) < 0 ? SBX_NOMEM(err, ORIGIN) : 1;
}

static int write_document(const struct sbx_cli_mcp_client *client, int dir_fd, const json_t *document,
                          struct sbx_bytes old, mode_t mode, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer out = SBX_BUFFER(2 * FILE_MAX), backup = SBX_BUFFER(256);
        _cleanup_free_ char *text = json_dumps(document, JSON_INDENT(2));
        int r = 0;

        if (text == NULL || sbx_buffer_printf(&out, "%s\n", text) < 0 ||
            sbx_buffer_printf(&backup, "%s.bak", client->file) < 0)
                return SBX_NOMEM(err, ORIGIN);
        if (old.size > 0)
                r = sbx_cli_project_look(dir_fd, backup.data, NULL, err);
        if (r >= 0 && old.size > 0)
                r = sbx_cli_project_write(dir_fd, backup.data, old, mode, true, err);
        return r < 0 ? r : sbx_cli_project_write(dir_fd, client->file, sbx_buffer_bytes(&out), mode, old.size > 0, err);
}

int sbx_cli_mcp_client_add(const struct sbx_cli_mcp_client *client, int project_fd,
                           const struct sbx_cli_mcp_entry *entry, char **ret_path, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer old = SBX_BUFFER(FILE_MAX);
        _cleanup_json_ json_t *document = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int dir_fd = -1;
        mode_t mode = client->of_user ? 0600 : 0644;
        int r = dir_fd = open_directory(client, project_fd, &path, err);

        if (r >= 0)
                r = sbx_cli_project_look(dir_fd, client->file, &mode, err);
        if (r > 0)
                r = read_document(client, dir_fd, &old, &document, err);
        else if (r == 0)
                document = json_object();
        if (r >= 0)
                r = document != NULL ? add_entry(document, client, entry, err) : SBX_NOMEM(err, ORIGIN);
        if (r > 0) {
                int written = write_document(client, dir_fd, document, sbx_buffer_bytes(&old), mode, err);

                r = written < 0 ? written : r;
        }
        if (r >= 0)
                *ret_path = steal_pointer(path);
        return r;
}
