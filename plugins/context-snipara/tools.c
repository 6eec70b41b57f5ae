/* SPDX-License-Identifier: Apache-2.0 */
/* The nine tools as data, and their definitions in the form of the tool registry. */
#include "tools.h"

#include "util.h"

#define READ_LINES_MAX 200

/* ---- the tools ------------------------------------------------------------------------------------------- */

#define TEXT "\"minLength\":1"
#define TYPES "\"enum\":[\"fact\",\"decision\",\"learning\",\"preference\",\"todo\",\"context\"]"
#define SCOPES "\"enum\":[\"agent\",\"project\",\"team\",\"user\"]"
#define STRINGS "\"items\":{\"type\":\"string\"}"
#define TOKENS "\"minimum\":100,\"maximum\":100000"
#define OFFSET "\"minimum\":0"

static const struct snipara_parameter query_parameters[] = {
        {"query", "string", NULL, TEXT, "What to find out, in words: a question or a topic.", true},
        {"max_tokens", "integer", "2000", TOKENS, "How long the answer may be, in tokens.", false},
        {"search_mode", "string", "\"hybrid\"", "\"enum\":[\"keyword\",\"semantic\",\"hybrid\"]",
         "keyword: exact terms, fast. semantic: by meaning. hybrid: both, the best in most cases.", false},
        {"prefer_summaries", "boolean", "false", NULL, "Answer with summaries where there are some, so that more fits.",
         false},
        {"include_metadata", "boolean", "true", NULL, "Say of each section which file it is from and how well it fits.",
         false},
        {0},
};

static const struct snipara_parameter search_parameters[] = {
        {"pattern", "string", NULL, TEXT, "Regular expression.", true},
        {"max_results", "integer", "20", "\"minimum\":1,\"maximum\":500", "How many matches at most.", false},
        {0},
};

static const struct snipara_parameter sections_parameters[] = {
        {"filter", "string", NULL, NULL, "Only sections whose title begins so, in either case.", false},
        {"limit", "integer", "20", "\"minimum\":1,\"maximum\":500", "How many sections at most.", false},
        {"offset", "integer", "0", OFFSET, "How many sections to leave out at the begin: the next page.", false},
        {0},
};

static const struct snipara_parameter read_parameters[] = {
        {"start_line", "integer", NULL, "\"minimum\":1", "First line.", true},
        {"end_line", "integer", NULL, "\"minimum\":1", "Last line, included; at most 199 behind the first.", true},
        {0},
};

static const struct snipara_parameter shared_parameters[] = {
        {"categories", "array", NULL,
         "\"items\":{\"type\":\"string\",\"enum\":[\"MANDATORY\",\"BEST_PRACTICES\",\"GUIDELINES\",\"REFERENCE\"]}",
         "Which kinds of documents; left out: all.", false},
        {"max_tokens", "integer", "2000", TOKENS, "How long the answer may be, in tokens.", false},
        {"include_content", "boolean", "true", NULL, "false: a list of the documents without their text.", false},
        {0},
};

static const struct snipara_parameter remember_parameters[] = {
        {"content", "string", NULL, TEXT, "What to keep, understandable without this conversation.", true},
        {"type", "string", "\"fact\"", TYPES, "What kind of memory it is.", false},
        {"scope", "string", "\"project\"", SCOPES, "Who will find it.", false},
        {"category", "string", NULL, NULL, "A name to group memories by.", false},
        {"ttl_days", "integer", NULL, "\"minimum\":1", "After how many days it is forgotten; left out: never.", false},
        {"related_to", "array", NULL, STRINGS, "Ids of memories that belong to it.", false},
        {"document_refs", "array", NULL, STRINGS, "Paths of documents that it is about.", false},
        {0},
};

static const struct snipara_parameter recall_parameters[] = {
        {"query", "string", NULL, TEXT, "What to remember about, in words.", true},
        {"limit", "integer", "5", "\"minimum\":1,\"maximum\":500", "How many memories at most.", false},
        {"min_relevance", "number", "0.5", "\"minimum\":0,\"maximum\":1", "Leave out what fits less, from 0 to 1.",
         false},
        {"type", "string", NULL, TYPES, "Memories of this kind only.", false},
        {"scope", "string", NULL, SCOPES, "Memories of this scope only.", false},
        {"category", "string", NULL, NULL, "Memories of this category only.", false},
        {0},
};

static const struct snipara_parameter memories_parameters[] = {
        {"type", "string", NULL, TYPES, "Memories of this kind only.", false},
        {"scope", "string", NULL, SCOPES, "Memories of this scope only.", false},
        {"category", "string", NULL, NULL, "Memories of this category only.", false},
        {"search", "string", NULL, NULL, "Memories with this text in them only.", false},
        {"limit", "integer", "20", "\"minimum\":1,\"maximum\":500", "How many memories at most.", false},
        {"offset", "integer", "0", OFFSET, "How many memories to leave out at the begin: the next page.", false},
        {0},
};

static const struct snipara_parameter forget_parameters[] = {
        {"memory_id", "string", NULL, TEXT, "The memory to delete.", false},
        {"type", "string", NULL, TYPES, "Delete all of this kind.", false},
        {"category", "string", NULL, TEXT, "Delete all of this category.", false},
        {"older_than_days", "integer", NULL, "\"minimum\":0", "Delete what is older than so many days.", false},
        {0},
};

static const struct snipara_tool tools[] = {
        {"snipara_context_query", "rlm_context_query", "Ask the documentation",
         "Finds the sections of the project's documentation and code that fit a question, best first, together no "
         "longer "
         "than max_tokens. Ask this before you read files: one answer replaces reading many. For an exact name or "
         "message use snipara_search. Answers JSON text with the sections, their titles, files and lines.",
         false, true, false, query_parameters},
        {"snipara_search", "rlm_search", "Search the documentation",
         "Finds the lines of the project's indexed documentation that match a regular expression: function names, "
         "error "
         "messages, settings. For a question in words use snipara_context_query. Answers JSON text with lines and "
         "their "
         "numbers, which snipara_read takes.",
         false, true, false, search_parameters},
        {"snipara_sections", "rlm_sections", "List sections of the documentation",
         "Lists the sections of the project's indexed documentation with titles and lines, a page at a time, to see "
         "what "
         "there is. filter keeps those whose title begins with it.",
         false, true, false, sections_parameters},
        {"snipara_read", "rlm_read", "Read lines of the documentation",
         "Reads lines start_line to end_line of the project's indexed documentation, as snipara_sections and "
         "snipara_search number them. At most 200 lines a call; of a longer range the first 200.",
         false, true, false, read_parameters},
        {"snipara_shared_context", "rlm_shared_context", "Read the team's shared documents",
         "Gives what the team shares across projects, merged and no longer than max_tokens: MANDATORY rules first, "
         "then "
         "BEST_PRACTICES, GUIDELINES and REFERENCE. Ask before you decide on conventions.",
         false, true, false, shared_parameters},
        {"snipara_remember", "rlm_remember", "Remember",
         "Keeps a memory at Snipara for later conversations: a fact, decision, learning, preference, todo or context. "
         "Write it so that it can be understood alone, and never put a password or key into it. snipara_recall finds "
         "it "
         "by meaning. Answers JSON text with the memory's id.",
         true, false, false, remember_parameters},
        {"snipara_recall", "rlm_recall", "Recall memories",
         "Finds memories that fit a query by meaning, best first; older ones count less. Ask it at the begin of a "
         "task. "
         "For a plain list use snipara_memories.",
         true, true, false, recall_parameters},
        {"snipara_memories", "rlm_memories", "List memories",
         "Lists memories, a page at a time, by kind, scope, category or a text in them. Answers JSON text with their "
         "ids, "
         "which snipara_forget takes.",
         true, true, false, memories_parameters},
        {"snipara_forget", "rlm_forget", "Forget memories",
         "Deletes memories for good: the one with memory_id, or all that fulfil type, category and older_than_days "
         "together. At least one of them must be given. Look with snipara_memories first.",
         true, false, true, forget_parameters},
};
#define TOOL_COUNT (sizeof(tools) / sizeof(tools[0]))

const struct snipara_tool *snipara_tool_find(const char *name) {
        for (size_t i = 0; i < TOOL_COUNT; i++)
                if (strcmp(tools[i].name, name) == 0)
                        return &tools[i];
        return NULL;
}

/* ---- definitions ----------------------------------------------------------------------------------------- */

static json_t *define_parameter(const struct snipara_parameter *parameter) {
        _cleanup_json_ json_t *more = NULL, *fallback = NULL;
        _cleanup_free_ char *text = NULL;
        json_t *schema;

        if (asprintf(&text, "{%s}", parameter->more != NULL ? parameter->more : "") < 0) {
                text = NULL;
                return NULL;
        }
        more = json_loads(text, 0, NULL);
        schema = json_pack("{s:s, s:s}", "type", parameter->type, "description", parameter->help);
        if (parameter->fallback != NULL)
                fallback = json_loads(parameter->fallback, JSON_DECODE_ANY, NULL);
        if (more == NULL || json_object_update(schema, more) < 0 ||
            (parameter->fallback != NULL && json_object_set(schema, "default", fallback) < 0)) {
                json_decref(schema);
                return NULL;
        }
        return schema;
}

static json_t *define_schema(const struct snipara_parameter *parameters) {
        _cleanup_json_ json_t *properties = json_object(), *required = json_array();
        bool complete = true;

        for (; parameters->name != NULL; parameters++) {
                complete = complete &&
                           json_object_set_new(properties, parameters->name, define_parameter(parameters)) == 0;
                if (parameters->required)
                        complete = complete && json_array_append_new(required, json_string(parameters->name)) == 0;
        }
        if (!complete)
                return NULL;
        return json_pack("{s:s, s:O, s:O, s:b}", "type", "object", "properties", properties, "required", required,
                         "additionalProperties", 0);
}

static json_t *define_tool(const struct snipara_tool *tool) {
        return json_pack("{s:s, s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}, s:{s:[s]}}", "name", tool->name, "title",
                         tool->title, "description", tool->description, "inputSchema", define_schema(tool->parameters),
                         "annotations", "readOnlyHint", tool->reads, "destructiveHint", tool->destructive,
                         "idempotentHint", tool->reads || tool->destructive, "openWorldHint", 1, "_meta",
                         "snipara-sandbox/aliases", tool->remote);
}

json_t *snipara_tools_define(bool with_memory) {
        _cleanup_json_ json_t *list = json_array();

        for (size_t i = 0; i < TOOL_COUNT; i++)
                if ((with_memory || !tools[i].memory) && json_array_append_new(list, define_tool(&tools[i])) < 0)
                        return NULL;
        return steal_pointer(list);
}

/* ---- arguments ------------------------------------------------------------------------------------------- */

static int adapt_read(json_t *arguments, struct sbx_error *err) {
        json_int_t start = json_integer_value(json_object_get(arguments, "start_line"));
        json_int_t end = json_integer_value(json_object_get(arguments, "end_line"));

        if (start < 1 || end < start)
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN, "Both are line numbers, the last one included.",
                                     "end_line (%lld) lies before start_line (%lld), or there is no such line",
                                     (long long)end, (long long)start);
        if (end - start < READ_LINES_MAX)
                return 0;
        return json_object_set_new(arguments, "end_line", json_integer(start + READ_LINES_MAX - 1)) < 0 ? -ENOMEM : 0;
}

int snipara_tool_adapt(const struct snipara_tool *tool, json_t *arguments, struct sbx_error *err) {
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe (arguments, next, key, value) {
                if (json_is_null(value))
                        json_object_del(arguments, key);
        }
        if (tool->parameters == read_parameters)
                return adapt_read(arguments, err);
        if (tool->parameters == forget_parameters && json_object_size(arguments) == 0)
                return sbx_error_set(err, -EINVAL, SNIPARA_ORIGIN,
                                     "Give memory_id, or type, category or older_than_days.",
                                     "nothing says which memories to forget");
        return 0;
}

const char *snipara_tool_doubt(const struct snipara_tool *tool) {
        if (tool->reads)
                return "";
        return tool->destructive
                       ? " It may have been deleted all the same: look with snipara_memories."
                       : " It may have been stored all the same: look with snipara_memories before you repeat "
                         "it.";
}
