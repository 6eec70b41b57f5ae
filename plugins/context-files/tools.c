/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions of the tools: names, parameters and defaults as snipara-sandbox 2.2.7 has them. */
#include "calls.h"

/* A parameter. `otherwise`: its default as JSON, NULL for none. `least` and `most`: of a number, both 0 for no range;
 * of a text or list, the most characters or items. */
struct parameter {
        const char *name;
        const char *type; /* of JSON Schema */
        const char *otherwise;
        int64_t least, most;
        const char *choices; /* JSON */
        bool required;
        const char *help;
};

struct definition {
        const char *name, *alias, *title, *description;
        const struct parameter *parameters; /* ends with a name NULL */
        bool memory, writes, destroys;
};

#define MODES "[\"keyword\",\"semantic\",\"hybrid\"]"
#define TYPES "[\"fact\",\"decision\",\"learning\",\"preference\",\"todo\",\"context\"]"
#define SCOPES "[\"agent\",\"project\",\"team\",\"user\"]"
#define END                                                                                                            \
        { .name = NULL }

static const struct parameter query_parameters[] = {
        {"query", "string", NULL, 0, 10000, NULL, true, "Question or topic to search for"},
        {"max_tokens", "integer", "2000", 100, 100000, NULL, false, "Maximum tokens in the answer, at 4 bytes each"},
        {"search_mode", "string", "\"hybrid\"", 0, 0, MODES, false,
         "Search mode; all are served by keyword ranking here"},
        {"prefer_summaries", "boolean", "false", 0, 0, NULL, false,
         "The beginning of each section instead of all of it"},
        {"include_metadata", "boolean", "true", 0, 0, NULL, false, "Include score, level and tokens of each section"},
        END};

static const struct parameter search_parameters[] = {
        {"pattern", "string", NULL, 0, 1000, NULL, true, "Regular expression to search for"},
        {"max_results", "integer", "20", 1, 500, NULL, false, "Maximum lines to return"},
        END};

static const struct parameter sections_parameters[] = {
        {"filter", "string", NULL, 0, 1000, NULL, false,
         "Beginning of the titles or file paths to list (case-insensitive)"},
        {"limit", "integer", "20", 1, 500, NULL, false, "Maximum sections to return"},
        {"offset", "integer", "0", 0, INT32_MAX, NULL, false, "Number of sections to skip"},
        END};

static const struct parameter read_parameters[] = {
        {"start_line", "integer", NULL, 1, INT32_MAX, NULL, true, "First line, from 1"},
        {"end_line", "integer", NULL, 1, INT32_MAX, NULL, true, "Last line, inclusive"},
        {"file", "string", NULL, 0, 4096, NULL, false, "Path of the file, relative to the project"},
        END};

static const struct parameter remember_parameters[] = {
        {"content", "string", NULL, 0, 16000, NULL, true, "What to remember"},
        {"type", "string", "\"fact\"", 0, 0, TYPES, false, "Memory type"},
        {"scope", "string", "\"project\"", 0, 0, SCOPES, false, "Memory scope"},
        {"category", "string", NULL, 0, 200, NULL, false, "Category for grouping"},
        {"ttl_days", "integer", NULL, 1, 36500, NULL, false, "Days until it expires; permanent if not given"},
        {"related_to", "array", NULL, 0, 50, NULL, false, "IDs of related memories"},
        {"document_refs", "array", NULL, 0, 50, NULL, false, "Paths of the documents it is about"},
        END};

static const struct parameter recall_parameters[] = {
        {"query", "string", NULL, 0, 10000, NULL, true, "Search query"},
        {"limit", "integer", "5", 1, 500, NULL, false, "Maximum memories to return"},
        {"min_relevance", "number", "0.5", 0, 1, NULL, false,
         "Minimum relevance: 1 has all words of the query, 0.5 a quarter of them"},
        {"type", "string", NULL, 0, 0, TYPES, false, "Only of this type"},
        {"scope", "string", NULL, 0, 0, SCOPES, false, "Only of this scope"},
        {"category", "string", NULL, 0, 200, NULL, false, "Only of this category"},
        END};

static const struct parameter memories_parameters[] = {
        {"type", "string", NULL, 0, 0, TYPES, false, "Only of this type"},
        {"scope", "string", NULL, 0, 0, SCOPES, false, "Only of this scope"},
        {"category", "string", NULL, 0, 200, NULL, false, "Only of this category"},
        {"search", "string", NULL, 0, 1000, NULL, false, "Text that the content must have"},
        {"limit", "integer", "20", 1, 500, NULL, false, "Maximum memories to return"},
        {"offset", "integer", "0", 0, INT32_MAX, NULL, false, "Number to skip"},
        END};

static const struct parameter forget_parameters[] = {
        {"memory_id", "string", NULL, 0, 100, NULL, false, "ID of one memory"},
        {"type", "string", NULL, 0, 0, TYPES, false, "All of this type"},
        {"category", "string", NULL, 0, 200, NULL, false, "All of this category"},
        {"older_than_days", "integer", NULL, 0, 36500, NULL, false, "Memories older than so many days"},
        END};

static const struct definition definitions[] = {
        {"snipara_context_query", "rlm_context_query", "Query the project",
         "Finds the parts of the project's files that answer a question: ranked sections with file and lines, within a "
         "token budget. Ranked by keywords, whatever search_mode says.",
         query_parameters, false, false, false},
        {"snipara_search", "rlm_search", "Search the project",
         "Finds the lines of the project's files that match a regular expression (PCRE2, line by line).",
         search_parameters, false, false, false},
        {"snipara_sections", "rlm_sections", "List the project's sections",
         "Lists the indexed sections of the project's files, with file and lines.", sections_parameters, false, false,
         false},
        {"snipara_read", "rlm_read", "Read lines of the project",
         "Reads lines of a file of the project, at most 200 in one call. Without a file, lines are counted through all "
         "indexed files.",
         read_parameters, false, false, false},
        {"snipara_remember", "rlm_remember", "Remember",
         "Keeps a memory of this project for later. Types: fact, decision, learning, preference, todo, context.",
         remember_parameters, true, true, false},
        {"snipara_recall", "rlm_recall", "Recall",
         "Finds memories of this project by the words of a query, the most relevant first.", recall_parameters, true,
         false, false},
        {"snipara_memories", "rlm_memories", "List memories", "Lists the memories of this project, the newest first.",
         memories_parameters, true, false, false},
        {"snipara_forget", "rlm_forget", "Forget",
         "Deletes the memories of this project that fit all of what is given; at least one must be.", forget_parameters,
         true, true, true},
};

/* ---- to JSON ---- */

static int set_json(json_t *object, const char *key, const char *text) {
        return text == NULL ? 0 : json_object_set_new(object, key, json_loads(text, JSON_DECODE_ANY, NULL));
}

static int set_limits(json_t *schema, const struct parameter *parameter) {
        bool text = strcmp(parameter->type, "string") == 0, list = strcmp(parameter->type, "array") == 0;
        int r = 0;

        if (list)
                r = json_object_set_new(schema, "items", json_pack("{s:s,s:i}", "type", "string", "maxLength", 1000));
        if (r < 0 || parameter->most == 0)
                return r;
        r = json_object_set_new(schema,
                                text   ? "maxLength"
                                : list ? "maxItems"
                                       : "maximum",
                                json_integer(parameter->most));
        if (r == 0 && !text && !list)
                r = json_object_set_new(schema, "minimum", json_integer(parameter->least));
        return r;
}

/* NULL: -ENOMEM. */
static json_t *parameter_json(const struct parameter *parameter) {
        json_t *schema = json_pack("{s:s,s:s}", "type", parameter->type, "description", parameter->help);

        if (schema == NULL)
                return NULL;
        if (set_limits(schema, parameter) < 0 || set_json(schema, "enum", parameter->choices) < 0 ||
            set_json(schema, "default", parameter->otherwise) < 0) {
                json_decref(schema);
                return NULL;
        }
        return schema;
}

static json_t *schema_json(const struct parameter *parameters) {
        json_t *schema =
                json_pack("{s:s,s:{},s:[],s:b}", "type", "object", "properties", "required", "additionalProperties", 0);
        json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");

        for (; schema != NULL && parameters->name != NULL; parameters++) {
                if (json_object_set_new(properties, parameters->name, parameter_json(parameters)) == 0 &&
                    (!parameters->required || json_array_append_new(required, json_string(parameters->name)) == 0))
                        continue;
                json_decref(schema);
                return NULL;
        }
        return schema;
}

static json_t *definition_json(const struct definition *definition) {
        return json_pack("{s:s,s:s,s:s,s:o,s:{s:b,s:b,s:b,s:b},s:{s:[s],s:b}}", "name", definition->name, "title",
                         definition->title, "description", definition->description, "inputSchema",
                         schema_json(definition->parameters), "annotations", "readOnlyHint", !definition->writes,
                         "destructiveHint", definition->destroys, "idempotentHint",
                         !definition->writes || definition->destroys, "openWorldHint", 0, "_meta",
                         "snipara-sandbox/aliases", definition->alias, "snipara-sandbox/host", 1);
}

int files_tools(const struct files *files, struct sbx_output *ret_json, struct sbx_error *err) {
        const struct sbx_host *host = files->options.host;
        _cleanup_json_ json_t *list = json_array();
        _cleanup_free_ char *text = NULL;
        int r;

        for (size_t i = 0; i < sizeof(definitions) / sizeof(definitions[0]); i++)
                if ((!definitions[i].memory || files->options.memory) &&
                    json_array_append_new(list, definition_json(&definitions[i])) < 0)
                        return files_nomem(err);
        text = json_dumps(list, JSON_COMPACT);
        if (text == NULL)
                return files_nomem(err);
        r = host->output_append(host->self, ret_json, text, strlen(text));
        return r == 0 ? 0 : sbx_error_set(err, r, FILES_ORIGIN, NULL, "the tools' definitions are too large");
}
