/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions checkpoint`, `sessions rollback`, `sessions fork`: the states of a stored session. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sessions.h"

/* " (byte-exact, 12 KB, 1.50 ms)", as far as it is told */
static int show_cost(const struct sbx_cli_sessions *sessions, const json_t *answer) {
        const json_t *took = json_object_get(answer, "took_ms"), *bytes = json_object_get(answer, "bytes");
        char amount[SBX_CLI_AMOUNT_SIZE] = "", time[SBX_CLI_AMOUNT_SIZE] = "";

        if (json_is_integer(bytes))
                (void)sbx_cli_bytes_text(sbx_cli_sessions_count(answer, "bytes"), amount);
        if (json_is_number(took) && json_number_value(took) >= 0)
                (void)sbx_cli_duration_text((uint64_t)(json_number_value(took) * 1e6), time);
        return sbx_cli_print_styled(&sessions->cli->out, SBX_CLI_DIM, " (%s%s%s%s%s)\n",
                                    sbx_cli_sessions_text(answer, "mechanism"), amount[0] != '\0' ? ", " : "", amount,
                                    time[0] != '\0' ? ", " : "", time);
}

static int show_name(const struct sbx_cli_sessions *sessions, const json_t *answer) {
        const char *label = sbx_cli_sessions_text(answer, "label");
        int r = sbx_cli_print_styled(&sessions->cli->out, SBX_CLI_BOLD, "%s", sbx_cli_sessions_text(answer, "id"));

        return r >= 0 && label[0] != '\0' ? sbx_cli_print(&sessions->cli->out, " %s", label) : r;
}

/* The answer as JSON; or a line that `show` begins, and what of the state is not there: `missing` of the answer, behind
 * `title`. */
static int end(struct sbx_cli_sessions *sessions, int r, const json_t *answer,
               int (*show)(const struct sbx_cli_sessions *sessions, const json_t *answer), const char *title,
               const char *missing) {
        sbx_cli_progress_clear(&sessions->progress);
        if (r >= 0 && sessions->options.json)
                return sbx_cli_sessions_end(sessions, sbx_cli_print_json(&sessions->cli->out, answer, true));
        if (r >= 0)
                r = show(sessions, answer);
        if (r >= 0)
                r = show_cost(sessions, answer);
        if (r >= 0)
                r = sbx_cli_sessions_show_left_out(sessions, title, json_object_get(answer, missing));
        return sbx_cli_sessions_end(sessions, r);
}

static int run_checkpoint(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *answer = NULL;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 1, 1, &result))
                return result;
        r = sbx_sessions_checkpoint(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions),
                                    sbx_cli_sessions_word(&sessions, 0), sessions.options.label, &sessions.call,
                                    &answer, &sessions.err);
        return end(&sessions, r, answer, show_name, "not in it", "unsaved");
}

static int show_back(const struct sbx_cli_sessions *sessions, const json_t *answer) {
        int r = sbx_cli_print(&sessions->cli->out, "%s is back at ", sbx_cli_sessions_word(sessions, 0));

        return r < 0 ? r : show_name(sessions, answer);
}

static int run_rollback(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *answer = NULL;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 2, 2, &result))
                return result;
        r = sbx_sessions_rollback(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions),
                                  sbx_cli_sessions_word(&sessions, 0), sbx_cli_sessions_word(&sessions, 1),
                                  &sessions.call, &answer, &sessions.err);
        return end(&sessions, r, answer, show_back, "did not come back", "missing");
}

static int show_new(const struct sbx_cli_sessions *sessions, const json_t *answer) {
        return sbx_cli_print_styled(&sessions->cli->out, SBX_CLI_BOLD, "%s",
                                    sbx_cli_sessions_text(answer, "session_id"));
}

static int run_fork(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *answer = NULL;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 1, 2, &result))
                return result;
        r = sbx_sessions_fork(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions),
                              sbx_cli_sessions_word(&sessions, 0), sessions.options.checkpoint,
                              sbx_cli_sessions_word(&sessions, 1), &sessions.call, &answer, &sessions.err);
        return end(&sessions, r, answer, show_new, "not in it", "missing");
}

/* ---- the commands -------------------------------------------------------------------------------------- */

static const struct sbx_cli_option checkpoint_command_options[] = {
        {"label", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli_sessions_options, label), "TEXT",
         "what to call it, at most 200 bytes; the other commands take it in place of the id", NULL},
        SBX_CLI_SESSIONS_PRINCIPAL,
        SBX_CLI_SESSIONS_JSON,
        {0}};
static const struct sbx_cli_option rollback_command_options[] = {
        SBX_CLI_SESSIONS_PRINCIPAL, SBX_CLI_SESSIONS_JSON, {0}};
static const struct sbx_cli_option fork_command_options[] = {
        {"checkpoint", 0, SBX_CLI_TEXT, offsetof(struct sbx_cli_sessions_options, checkpoint), "ID",
         "the checkpoint to begin from, by id or label (default: as the session is now)", NULL},
        SBX_CLI_SESSIONS_PRINCIPAL,
        SBX_CLI_SESSIONS_JSON,
        {0}};

static const struct sbx_cli_example checkpoint_examples[] = {
        {"sessions checkpoint analysis --label cleaned", "keep the state as it is now under a name"},
        {0},
};
static const struct sbx_cli_example rollback_examples[] = {
        {"sessions rollback analysis cleaned", "back to what was kept under that name"},
        {0},
};
static const struct sbx_cli_example fork_examples[] = {
        {"sessions fork analysis attempt --checkpoint c7", "a second session that begins as the first one was at c7"},
        {0},
};

const struct sbx_cli_command sbx_cli_sessions_checkpoint = {
        .name = "sessions checkpoint",
        .arguments = "NAME",
        .summary = "Keep the state of a session under a label",
        .description =
                "Stored sessions keep their state by themselves; the oldest of those checkpoints go when there are\n"
                "many. One that was asked for stays until the session is deleted.",
        .options = checkpoint_command_options,
        .examples = checkpoint_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_checkpoint,
};

const struct sbx_cli_command sbx_cli_sessions_rollback = {
        .name = "sessions rollback",
        .arguments = "NAME CHECKPOINT",
        .summary = "Return a session to one of its checkpoints",
        .description = "CHECKPOINT is an id or a label. No code runs again. What did not come back is listed by name.",
        .options = rollback_command_options,
        .examples = rollback_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_rollback,
};

const struct sbx_cli_command sbx_cli_sessions_fork = {
        .name = "sessions fork",
        .arguments = "NAME [NEW]",
        .summary = "Make a new session from the state of another",
        .description = "Prints the name of the new one, which is made up if none is given.",
        .options = fork_command_options,
        .examples = fork_examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run_fork,
};
