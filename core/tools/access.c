/* SPDX-License-Identifier: Apache-2.0 */
/* Who may call what: the flags of a tool, the patterns of the configuration, and what each kind of caller gets to see.
 */
#include "tools/state.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"

#define ORIGIN SBX_TOOLS_ORIGIN
#define PATTERNS_MAX 1024u

static const struct {
        const char *plural, *setting;
        unsigned never; /* SBX_TOOL_* bits of what such a caller never gets */
} callers[] = {
        [SBX_CALLER_CLIENT] = {"clients", "client_tools", SBX_TOOL_RUN},
        [SBX_CALLER_MODEL] = {"models", "model_tools", SBX_TOOL_CLIENT},
        [SBX_CALLER_CODE] = {"code", "code_tools", SBX_TOOL_CLIENT | SBX_TOOL_SESSION},
        [SBX_CALLER_RUN] = {"runs", "model_tools", SBX_TOOL_CLIENT},
};

#define CALLERS (sizeof(callers) / sizeof(callers[0]))

/* Whether the flags leave the caller a chance, whatever the configuration says. */
static bool may_ever_call(const struct sbx_tool_entry *entry, enum sbx_tool_caller caller) {
        return (entry->tool.flags & callers[caller].never) == 0;
}

/* ---- other names ---- */

static const struct sbx_tool_alias *find_alias_locked(const struct sbx_tools *tools, const char *name) {
        for (size_t i = 0; i < tools->alias_count; i++)
                if (strcmp(tools->aliases[i].name, name) == 0)
                        return &tools->aliases[i];
        return NULL;
}

/* What the name means to a caller: a tool of this name that such callers can have, or else the one that it is an alias
 * of. Where neither is for them, it is what has the name. */
static const struct sbx_tool_entry *find_for_locked(const struct sbx_tools *tools, const char *name,
                                                    enum sbx_tool_caller caller) {
        const struct sbx_tool_entry *named = sbx_tools_find_locked(tools, name);
        const struct sbx_tool_alias *alias;

        if (named == NULL || may_ever_call(named, caller))
                return named;
        alias = find_alias_locked(tools, name);
        return alias != NULL && may_ever_call(alias->entry, caller) ? alias->entry : named;
}

/* Would an alias of this name never be looked at: does whoever could have what it stands for have `named` too? */
static bool is_hidden(const struct sbx_tool_entry *alias_of, const struct sbx_tool_entry *named) {
        for (unsigned i = 0; i < CALLERS; i++)
                if (may_ever_call(alias_of, (enum sbx_tool_caller)i) && !may_ever_call(named, (enum sbx_tool_caller)i))
                        return false;
        return true;
}

int sbx_tools_alias(struct sbx_tools *tools, const char *alias, const char *name, struct sbx_error *err) {
        _cleanup_free_ char *copy = NULL;
        struct sbx_tool_entry *entry;
        const struct sbx_tool_entry *named;
        int r = sbx_tools_check_name(alias, err);

        if (r < 0)
                return r;
        copy = strdup(alias);
        if (copy == NULL)
                return SBX_NOMEM(err, ORIGIN);
        SBX_LOCKED(&tools->lock);
        entry = sbx_tools_find_locked(tools, name);
        if (entry == NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, NULL,
                                     "tool '%s': there is no '%.64s' that it could stand for", alias, name);
        named = sbx_tools_find_locked(tools, alias);
        if (find_alias_locked(tools, alias) != NULL || (named != NULL && is_hidden(entry, named)))
                return sbx_error_set(err, -EEXIST, ORIGIN, NULL, "tool '%s' is registered already", alias);
        if (tools->alias_count == SBX_TOOLS_MAX)
                return sbx_error_set(err, -ENOSPC, ORIGIN, NULL,
                                     "tool '%s': there are %u other names already, the maximum", alias, SBX_TOOLS_MAX);
        tools->aliases[tools->alias_count++] = (struct sbx_tool_alias){steal_pointer(copy), entry};
        return 0;
}

/* ---- patterns ---- */

static void free_patterns(struct sbx_tool_patterns *patterns) {
        for (size_t i = 0; i < patterns->count; i++)
                free(patterns->names[i]);
        free(patterns->names);
        *patterns = (struct sbx_tool_patterns){0};
}

void sbx_tools_free_access(struct sbx_tools *tools) {
        for (size_t i = 0; i < tools->alias_count; i++)
                free(tools->aliases[i].name);
        for (size_t i = 0; i < sizeof(tools->allowed) / sizeof(tools->allowed[0]); i++)
                free_patterns(&tools->allowed[i]);
}

/* A pattern that can match nothing is a mistake of whoever wrote it: better said than found out. */
static int check_pattern(const char *pattern, enum sbx_tool_caller caller, struct sbx_error *err) {
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
        size_t length = strspn(pattern, allowed);

        if (pattern[0] != '\0' && (pattern[length] == '\0' || strcmp(pattern + length, "*") == 0))
                return 0;
        return sbx_error_set(err, -EINVAL, ORIGIN, "Give names of tools, or the beginning of names and a '*'.",
                             "%s: '%.80s' is no name of a tool", callers[caller].setting, pattern);
}

int sbx_tools_allow(struct sbx_tools *tools, enum sbx_tool_caller caller, const char *const *patterns,
                    struct sbx_error *err) {
        struct sbx_tool_patterns copy = {0};
        size_t count = 0;
        int r = 0;

        while (patterns != NULL && patterns[count] != NULL)
                count++;
        if (count > PATTERNS_MAX)
                return sbx_error_set(err, -E2BIG, ORIGIN, "Use patterns with a '*'.",
                                     "%s: %zu names, at most %u are taken", callers[caller].setting, count,
                                     PATTERNS_MAX);
        for (size_t i = 0; i < count && r == 0; i++)
                r = check_pattern(patterns[i], caller, err);
        if (r < 0)
                return r;
        copy.names = calloc(count + 1, sizeof(*copy.names));
        for (; copy.names != NULL && copy.count < count; copy.count++) {
                copy.names[copy.count] = strdup(patterns[copy.count]);
                if (copy.names[copy.count] == NULL)
                        break;
        }
        if (copy.names == NULL || copy.count < count) {
                free_patterns(&copy);
                return SBX_NOMEM(err, ORIGIN);
        }
        free_patterns(&tools->allowed[caller]);
        tools->allowed[caller] = copy;
        return 0;
}

static bool matches(const struct sbx_tool_patterns *patterns, const char *name) {
        for (size_t i = 0; i < patterns->count; i++) {
                size_t length = strlen(patterns->names[i]);

                if (length > 0 && patterns->names[i][length - 1] == '*') {
                        if (strncmp(patterns->names[i], name, length - 1) == 0)
                                return true;
                } else if (strcmp(patterns->names[i], name) == 0) {
                        return true;
                }
        }
        return false;
}

/* A pattern may name the tool by any name that means it to the caller. */
static bool is_named_locked(const struct sbx_tools *tools, const struct sbx_tool_entry *entry,
                            enum sbx_tool_caller caller) {
        const struct sbx_tool_patterns *patterns = &tools->allowed[caller];

        if (matches(patterns, entry->tool.name))
                return true;
        for (size_t i = 0; i < tools->alias_count; i++)
                if (matches(patterns, tools->aliases[i].name) &&
                    find_for_locked(tools, tools->aliases[i].name, caller) == entry)
                        return true;
        return false;
}

static bool may_call_locked(const struct sbx_tools *tools, const struct sbx_tool_entry *entry,
                            enum sbx_tool_caller caller) {
        if (!may_ever_call(entry, caller))
                return false;
        if (caller == SBX_CALLER_CLIENT && (entry->tool.flags & SBX_TOOL_HOST) == 0)
                return true;
        if (caller == SBX_CALLER_RUN || (caller != SBX_CALLER_CLIENT && (entry->tool.flags & SBX_TOOL_ALWAYS) != 0))
                return true;
        return is_named_locked(tools, entry, caller);
}

/* ---- what a caller gets ---- */

/* "Tools are: a, b" of those that the caller may use, and the nearest of them. A text that does not fit ends where it
 * is full. */
static void describe_locked(const struct sbx_tools *tools, enum sbx_tool_caller caller, struct sbx_buffer *hint,
                            struct sbx_nearest *nearest) {
        bool first = true;

        for (size_t i = 0; i < tools->count; i++) {
                const char *name = tools->entries[i]->tool.name;

                if (!may_call_locked(tools, tools->entries[i], caller))
                        continue;
                sbx_nearest_offer(nearest, name);
                (void)sbx_buffer_printf(hint, "%s%s", first ? "Tools are: " : ", ", name);
                first = false;
        }
}

static int refuse_locked(const struct sbx_tools *tools, const struct sbx_tool_entry *entry, const char *name,
                         enum sbx_tool_caller caller, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer hint = SBX_BUFFER(SBX_ERROR_HINT_MAX);
        struct sbx_nearest nearest = SBX_NEAREST(name);

        if (entry != NULL && may_ever_call(entry, caller))
                (void)sbx_buffer_printf(&hint, "The setting %s decides. ", callers[caller].setting);
        describe_locked(tools, caller, &hint, &nearest);
        if (entry != NULL)
                return sbx_error_set(err, -EACCES, ORIGIN, hint.data, "%.64s is not for %s", name,
                                     callers[caller].plural);
        if (nearest.best != NULL)
                return sbx_error_set(err, -ENOENT, ORIGIN, hint.data, "unknown tool '%.64s'; did you mean '%s'?", name,
                                     nearest.best);
        return sbx_error_set(err, -ENOENT, ORIGIN, hint.data, "unknown tool '%.64s'", name);
}

int sbx_tools_resolve(struct sbx_tools *tools, const char *name, enum sbx_tool_caller caller,
                      const struct sbx_tool_entry **ret_entry, struct sbx_error *err) {
        const struct sbx_tool_entry *entry;

        if ((unsigned)caller >= CALLERS)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "no kind of caller has the number %d", (int)caller);
        if (sbx_tools_find(tools, name) == NULL)
                sbx_tools_refresh(tools); /* a source may have it by now */
        SBX_LOCKED(&tools->lock);
        entry = find_for_locked(tools, name, caller);
        if (entry == NULL || !may_call_locked(tools, entry, caller)) {
                if (ret_entry != NULL) /* a call, not a question whether it could be made */
                        SBX_COUNT(tools->metrics, tools_refused, 1);
                return refuse_locked(tools, entry, name, caller, err);
        }
        if (ret_entry != NULL)
                *ret_entry = entry;
        return 0;
}

int sbx_tools_check(struct sbx_tools *tools, const char *name, enum sbx_tool_caller caller, struct sbx_error *err) {
        return sbx_tools_resolve(tools, name, caller, NULL, err);
}

int sbx_tools_list_for(struct sbx_tools *tools, enum sbx_tool_caller caller, json_t **ret_list, struct sbx_error *err) {
        _cleanup_json_ json_t *list = json_array();
        bool complete = list != NULL;

        if ((unsigned)caller >= CALLERS)
                return sbx_error_set(err, -EINVAL, ORIGIN, NULL, "no kind of caller has the number %d", (int)caller);
        sbx_tools_refresh(tools);
        pthread_mutex_lock(&tools->lock);
        for (size_t i = 0; i < tools->count && complete; i++)
                if (may_call_locked(tools, tools->entries[i], caller))
                        complete = json_array_append_new(list, json_deep_copy(tools->entries[i]->listing)) == 0;
        pthread_mutex_unlock(&tools->lock);
        if (!complete)
                return SBX_NOMEM(err, ORIGIN);
        *ret_list = steal_pointer(list);
        return 0;
}

static int append_listing(struct sbx_buffer *out, bool *first, const struct sbx_buffer *listing) {
        int r = *first ? 0 : sbx_buffer_append(out, ",", 1);

        *first = false;
        return r < 0 ? r : sbx_buffer_append(out, listing->data, listing->size);
}

/* Clients ask for it often, and nothing in it changes: it is put together from texts. */
int sbx_tools_list(struct sbx_tools *tools, struct sbx_buffer *out_json, struct sbx_error *err) {
        bool first = true;
        int r = sbx_buffer_append(out_json, "[", 1);

        sbx_tools_refresh(tools);
        pthread_mutex_lock(&tools->lock);
        for (size_t i = 0; i < tools->count && r == 0; i++)
                if (may_call_locked(tools, tools->entries[i], SBX_CALLER_CLIENT))
                        r = append_listing(out_json, &first, &tools->entries[i]->listing_text);
        pthread_mutex_unlock(&tools->lock);
        if (r == 0)
                r = sbx_buffer_append(out_json, "]", 1);
        return r < 0 ? sbx_error_set(err, r, ORIGIN, NULL, "the list of tools: %s", SBX_ERRNO_TEXT(r)) : 0;
}
