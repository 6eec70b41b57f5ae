/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions export`, `sessions import`: a session as one file, to be moved to another store. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sessions.h"

static bool is_standard(const char *path) {
        return strcmp(path, "-") == 0;
}

/* ---- export ---- */

/* A file that appears under its name when it is whole, and not before. */
struct target {
        const char *path;
        char *temporary; /* NULL: standard output, or there is none any more */
        int fd;
};

static void target_free(struct target *target) {
        if (target->temporary != NULL)
                (void)unlink(target->temporary);
        free(target->temporary);
        if (target->fd > STDERR_FILENO)
                close(target->fd);
}

static int fail_path(struct sbx_error *err, const char *what, const char *path, int code) {
        return sbx_error_set(err, code == -ENOENT ? -EINVAL : code, "cli", NULL, "can't %s %s: %s", what, path,
                             SBX_ERRNO_TEXT(code));
}

/* What a session holds is nobody else's business: mode 0600. */
static int target_open(const struct sbx_cli_sessions *sessions, const char *path, struct target *target,
                       struct sbx_error *err) {
        target->path = path;
        if (is_standard(path)) {
                if (sessions->cli->out.terminal)
                        return sbx_error_set(err, -EINVAL, "cli", "give a file, or '-' with a pipe behind it",
                                             "a session is nothing for a terminal");
                target->fd = STDOUT_FILENO;
                return 0;
        }
        if (!sessions->options.force && access(path, F_OK) == 0)
                return sbx_error_set(err, -EEXIST, "cli", "--force replaces it", "%s is there already", path);
        if (asprintf(&target->temporary, "%s.XXXXXX", path) < 0) {
                target->temporary = NULL;
                return SBX_NOMEM(err, "cli");
        }
        target->fd = mkostemp(target->temporary, O_CLOEXEC);
        if (target->fd < 0) {
                int code = -errno;

                free(steal_pointer(target->temporary));
                return fail_path(err, "write", path, code);
        }
        return 0;
}

/* Durable before it has its name, which is new unless --force says otherwise. */
static int target_keep(const struct sbx_cli_sessions *sessions, struct target *target, struct sbx_error *err) {
        unsigned flags = sessions->options.force ? 0 : RENAME_NOREPLACE;
        int r;

        if (target->temporary == NULL)
                return 0;
        if (fsync(target->fd) < 0)
                return fail_path(err, "write", target->path, -errno);
        r = renameat2(AT_FDCWD, target->temporary, AT_FDCWD, target->path, flags);
        if (r < 0 && errno == EINVAL && flags != 0) /* a file system that can't do that; it has been looked at before */
                r = rename(target->temporary, target->path);
        if (r < 0)
                return fail_path(err, "write", target->path, -errno);
        free(steal_pointer(target->temporary));
        return 0;
}

static int run_export(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        __attribute__((cleanup(target_free))) struct target target = {.fd = -1};
        char amount[SBX_CLI_AMOUNT_SIZE];
        struct stat status = {0};
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 2, 2, &result))
                return result;
        r = target_open(&sessions, sbx_cli_sessions_word(&sessions, 1), &target, &sessions.err);
        if (r >= 0)
                r = sbx_sessions_export(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions),
                                        sbx_cli_sessions_word(&sessions, 0), sessions.options.checkpoint, target.fd,
                                        &sessions.call, &sessions.err);
        if (r >= 0)
                r = target_keep(&sessions, &target, &sessions.err);
        sbx_cli_progress_clear(&sessions.progress);
        if (r >= 0 && target.fd > STDERR_FILENO && fstat(target.fd, &status) == 0)
                r = sbx_cli_print(&cli->out, "%s: %s\n", target.path,
                                  sbx_cli_bytes_text((uint64_t)status.st_size, amount));
        return sbx_cli_sessions_end(&sessions, r);
}

/* ---- import ---- */

static int source_open(const char *path, int *ret_fd, struct sbx_error *err) {
        int fd = is_standard(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                                   : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return fail_path(err, "read", path, -errno);
        *ret_fd = fd;
        return 0;
}

static int show_imported(const struct sbx_cli_sessions *sessions, const json_t *answer) {
        if (sessions->options.json)
                return sbx_cli_print_json(&sessions->cli->out, answer, true);
        return sbx_cli_print(&sessions->cli->out, "session %s\n", sbx_cli_sessions_word(sessions, 0));
}

static int run_import(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *answer = NULL;
        _cleanup_close_ int fd = -1;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 2, 2, &result))
                return result;
        r = source_open(sbx_cli_sessions_word(&sessions, 1), &fd, &sessions.err);
        if (r >= 0)
                r = sbx_sessions_import(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions),
                                        sbx_cli_sessions_word(&sessions, 0), fd, &sessions.call, &answer,
                                        &sessions.err);
        sbx_cli_progress_clear(&sessions.progress);
        if (r >= 0)
                r = show_imported(&sessions, answer);
        return sbx_cli_sessions_end(&sessions, r);
}

/* ---- the commands -------------------------------------------------------------------------------------- */

static const struct sbx_cli_option export_command_options[] = {
        {"checkpoint", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli_sessions_options, checkpoint), "ID",
         "this checkpoint alone, by id or label (default: all of them)", NULL},
        {"force", 'f', SBX_CLI_FLAG, offsetof(struct sbx_cli_sessions_options, force), NULL,
         "replace a file that is there", NULL},
        SBX_CLI_SESSIONS_PRINCIPAL,
        {0}};
static const struct sbx_cli_option import_command_options[] = {SBX_CLI_SESSIONS_PRINCIPAL, SBX_CLI_SESSIONS_JSON, {0}};

static const struct sbx_cli_example export_examples[] = {
        {"sessions export analysis analysis.session", "the session with all its checkpoints as one file"},
        {"sessions export analysis - --checkpoint cleaned | ssh host snipara-sandbox sessions import analysis -",
         "one state, to another machine"},
        {0},
};
static const struct sbx_cli_example import_examples[] = {
        {"sessions import analysis analysis.session", "a session from a file, under a name that is not taken"},
        {0},
};

const struct sbx_cli_command sbx_cli_sessions_export = {
        .name = "sessions export",
        .arguments = "NAME FILE",
        .summary = "Write a stored session into a file",
        .description =
                "'-' is standard output. The file is not encrypted, whatever the store is: it holds the session's\n"
                "values and files, and is readable by you alone.",
        .options = export_command_options,
        .examples = export_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_export,
};

const struct sbx_cli_command sbx_cli_sessions_import = {
        .name = "sessions import",
        .arguments = "NAME FILE",
        .summary = "Make a session from a file",
        .description =
                "'-' is standard input. The file is read as if an enemy had written it, and is whole or refused; what\n"
                "is in it runs in the sandbox, when the session is used, and nowhere else.",
        .options = import_command_options,
        .examples = import_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_import,
};
