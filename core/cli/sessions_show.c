/* SPDX-License-Identifier: Apache-2.0 */
/* `sessions show`: the tree of a session's states. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/sessions.h"

#define NAMES_SHOWN 20u

/* ---- the tree ---- */

/* Checkpoints in the order in which a reader follows them: a line of descent in one piece, each branch after its
 * origin, one step further in. */
struct tree {
        const json_t *list;
        size_t count;
        size_t *order, *depth; /* of the rows */
};

static void tree_free(struct tree *tree) {
        free(tree->order);
        free(tree->depth);
}

static const char *member_at(const json_t *list, size_t index, const char *member) {
        return sbx_cli_sessions_text(json_array_get(list, index), member);
}

/* The child of `parent` at or behind `from`; count: there is none. */
static size_t next_child(const struct tree *tree, const char *parent, size_t from) {
        while (from < tree->count && strcmp(member_at(tree->list, from, "parent"), parent) != 0)
                from++;
        return from;
}

/* Goes down from each child of `parent`: the branches that came first are shown first, the last one goes on straight.
 * As deep as the list is long at most: what is in it has been given out. */
static void lay_out(struct tree *tree, const char *parent, size_t depth, size_t *rows) {
        size_t child = next_child(tree, parent, 0);

        while (child < tree->count && *rows < tree->count) {
                size_t next = next_child(tree, parent, child + 1);
                size_t at = next < tree->count ? depth + 1 : depth;
                const char *id = member_at(tree->list, child, "id");

                tree->order[*rows] = child;
                tree->depth[(*rows)++] = at;
                if (next >= tree->count) { /* the last one: no deeper call for a long line */
                        parent = id;
                        child = next_child(tree, parent, 0);
                        continue;
                }
                lay_out(tree, id, at, rows);
                child = next;
        }
}

static void add_checkpoint(struct sbx_cli_table *table, const json_t *checkpoint, size_t depth) {
        bool head = json_is_true(json_object_get(checkpoint, "head"));
        const json_t *holds = json_object_get(checkpoint, "holds");
        uint64_t variables = sbx_cli_sessions_count(holds, "variables");
        char amount[SBX_CLI_AMOUNT_SIZE];

        sbx_cli_table_cellf(table, head ? SBX_CLI_GREEN : SBX_CLI_BOLD, "%*s%s%s", (int)(depth < 40 ? 2 * depth : 80),
                            "", sbx_cli_sessions_text(checkpoint, "id"), head ? " *" : "");
        sbx_cli_table_cell(table, SBX_CLI_PLAIN,
                           json_is_true(json_object_get(checkpoint, "automatic"))
                                   ? "(automatic)"
                                   : sbx_cli_sessions_text(checkpoint, "label"));
        sbx_cli_sessions_add_time(table, sbx_cli_sessions_text(checkpoint, "created_at"));
        sbx_cli_table_cellf(table, SBX_CLI_PLAIN, "%llu",
                            (unsigned long long)sbx_cli_sessions_count(checkpoint, "executions"));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN,
                           sbx_cli_bytes_text(sbx_cli_sessions_count(checkpoint, "bytes"), amount));
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, sbx_cli_sessions_text(checkpoint, "mechanism"));
        sbx_cli_table_cellf(table, SBX_CLI_DIM, "%llu variable%s, %zu not saved", (unsigned long long)variables,
                            variables == 1 ? "" : "s", json_array_size(json_object_get(holds, "unsaved")));
}

static int show_tree(const struct sbx_cli_sessions *sessions, const json_t *list) {
        static const char *const titles[] = {"CHECKPOINT", "LABEL",   "TIME (UTC)", "EXECUTIONS",
                                             "SIZE",       "KEPT AS", "HOLDS"};
        size_t count = json_array_size(list), rows = 0;
        __attribute__((cleanup(tree_free))) struct tree tree = {.list = list,
                                                                .count = count,
                                                                .order = calloc(count + 1, sizeof(size_t)),
                                                                .depth = calloc(count + 1, sizeof(size_t))};
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(7);

        if (tree.order == NULL || tree.depth == NULL)
                return -ENOMEM;
        lay_out(&tree, "", 0, &rows);
        for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                sbx_cli_table_cell(table, SBX_CLI_BOLD, titles[i]);
        for (size_t i = 0; i < rows; i++)
                add_checkpoint(table, json_array_get(list, tree.order[i]), tree.depth[i]);
        return sbx_cli_table_show(table, &sessions->cli->out, 0);
}

/* ---- the session ---- */

static const json_t *find_session(const json_t *list, const char *id) {
        const json_t *session;
        size_t index;

        json_array_foreach ((json_t *)list, index, session) {
                if (strcmp(sbx_cli_sessions_text(session, "id"), id) == 0)
                        return session;
        }
        return NULL;
}

static void add_fact(struct sbx_cli_table *table, const char *title, const char *text) {
        if (text[0] == '\0')
                return;
        sbx_cli_table_cell(table, SBX_CLI_DIM, title);
        sbx_cli_table_cell(table, SBX_CLI_PLAIN, text);
}

static int show_facts(const struct sbx_cli_sessions *sessions, const json_t *session) {
        _cleanup_table_ struct sbx_cli_table *table = sbx_cli_table_new(2);
        char amount[SBX_CLI_AMOUNT_SIZE];

        add_fact(table, "session", sbx_cli_sessions_text(session, "id"));
        add_fact(table, "principal", sbx_cli_sessions_text(session, "principal"));
        add_fact(table, "environment", sbx_cli_sessions_text(session, "environment"));
        add_fact(table, "language", sbx_cli_sessions_text(session, "runtime"));
        add_fact(table, "created", sbx_cli_sessions_text(session, "created_at"));
        add_fact(table, "last used", sbx_cli_sessions_text(session, "used_at"));
        add_fact(table, "size", sbx_cli_bytes_text(sbx_cli_sessions_count(session, "bytes"), amount));
        add_fact(table, "in use by", sbx_cli_sessions_text(session, "server"));
        add_fact(table, "damaged", sbx_cli_sessions_text(session, "damaged"));
        return sbx_cli_table_show(table, &sessions->cli->out, 0);
}

static int show_names(const struct sbx_cli_sessions *sessions, const json_t *names) {
        const struct sbx_cli_stream *out = &sessions->cli->out;
        const json_t *name;
        size_t index;
        int r = 0;

        if (json_array_size(names) == 0)
                return 0;
        json_array_foreach ((json_t *)names, index, name) {
                if (r >= 0 && index < NAMES_SHOWN)
                        r = sbx_cli_print(out, "%s%s", index > 0 ? ", " : "variables: ", json_string_value(name));
        }
        return r < 0 ? r : sbx_cli_print(out, "%s\n", json_array_size(names) > NAMES_SHOWN ? ", ..." : "");
}

/* What the session would go on with. */
static int show_head(const struct sbx_cli_sessions *sessions, const json_t *list) {
        const json_t *checkpoint, *holds;
        size_t index;
        int r;

        json_array_foreach ((json_t *)list, index, checkpoint) {
                if (!json_is_true(json_object_get(checkpoint, "head")))
                        continue;
                holds = json_object_get(checkpoint, "holds");
                r = show_names(sessions, json_object_get(holds, "names"));
                return r < 0 ? r
                             : sbx_cli_sessions_show_left_out(sessions, "not saved", json_object_get(holds, "unsaved"));
        }
        return 0;
}

static int show(const struct sbx_cli_sessions *sessions, const json_t *session, const json_t *list) {
        int r = show_facts(sessions, session);

        if (r >= 0)
                r = sbx_cli_print(&sessions->cli->out, "\n");
        if (r >= 0)
                r = show_tree(sessions, list);
        if (r >= 0)
                r = sbx_cli_print(&sessions->cli->out, "\n");
        return r < 0 ? r : show_head(sessions, list);
}

static int show_json(const struct sbx_cli_sessions *sessions, const json_t *session, const json_t *list) {
        _cleanup_json_ json_t *document = json_deep_copy(session);

        if (document == NULL || json_object_set(document, "tree", (json_t *)list) < 0)
                return -ENOMEM;
        return sbx_cli_print_json(&sessions->cli->out, document, true);
}

static int run(struct sbx_cli *cli, const struct sbx_cli_command *command, int argc, char **argv) {
        _cleanup_sessions_ struct sbx_cli_sessions sessions = SBX_CLI_SESSIONS(cli);
        _cleanup_json_ json_t *stored = NULL, *list = NULL;
        const json_t *session = NULL;
        const char *id;
        int result, r;

        if (!sbx_cli_sessions_begin(&sessions, command, argc, argv, 1, 1, &result))
                return result;
        id = sbx_cli_sessions_word(&sessions, 0);
        r = sbx_sessions_stored(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions), &sessions.call,
                                &stored, &sessions.err);
        if (r >= 0)
                session = find_session(stored, id);
        if (r >= 0 && session == NULL)
                r = sbx_error_set(&sessions.err, -ENOENT, "cli", "'snipara-sandbox sessions list' tells which are",
                                  "no session '%s' is stored", id);
        if (r >= 0)
                r = sbx_sessions_checkpoints(sessions.runtime->sessions, sbx_cli_sessions_principal(&sessions), id,
                                             &sessions.call, &list, &sessions.err);
        sbx_cli_progress_clear(&sessions.progress);
        if (r >= 0)
                r = sessions.options.json ? show_json(&sessions, session, list) : show(&sessions, session, list);
        return sbx_cli_sessions_end(&sessions, r);
}

static const struct sbx_cli_option show_command_options[] = {SBX_CLI_SESSIONS_PRINCIPAL, SBX_CLI_SESSIONS_JSON, {0}};

static const struct sbx_cli_example examples[] = {
        {"sessions show analysis", "its checkpoints as a tree, what each holds, and what could not be saved"},
        {0},
};

const struct sbx_cli_command sbx_cli_sessions_show = {
        .name = "sessions show",
        .arguments = "NAME",
        .summary = "Show the checkpoints of a stored session",
        .description =
                "The session goes on from the checkpoint with a *. A checkpoint stands below the one that it was\n"
                "made from, further in where a branch begins.",
        .options = show_command_options,
        .examples = examples,
        .flags = SBX_CLI_CONFIGURED,
        .run = run,
};
