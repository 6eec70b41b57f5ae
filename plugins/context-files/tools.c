/* SPDX-License-Identifier: Apache-2.0 */
/* The definitions of the tools: names, parameters and defaults as snipara-sandbox 2.2.7 has them. */
#include "calls.h"

#define TYPES "{\"type\":\"string\",\"enum\":[\"fact\",\"decision\",\"learning\",\"preference\",\"todo\",\"context\"]"
#define SCOPES "{\"type\":\"string\",\"enum\":[\"agent\",\"project\",\"team\",\"user\"]"
#define TEXT(most, words) "{\"type\":\"string\",\"maxLength\":" #most ",\"description\":\"" words "\"}"
#define NUMBER(otherwise, least, most, words)                                                                          \
        "{\"type\":\"integer\",\"default\":" #otherwise ",\"minimum\":" #least ",\"maximum\":" #most                   \
        ",\"description\":\"" words "\"}"
#define COUNT(least, most, words)                                                                                      \
        "{\"type\":\"integer\",\"minimum\":" #least ",\"maximum\":" #most ",\"description\":\"" words "\"}"
#define TEXTS(words)                                                                                                   \
        "{\"type\":\"array\",\"maxItems\":50,\"items\":{\"type\":\"string\",\"maxLength\":1000},\"description\":\"" words "\"}"

struct definition {
        const char *name, *alias, *title, *description;
        const char *properties, *required; /* JSON */
        bool memory, writes, destroys;
};

static const struct definition definitions[] = {
        {"snipara_context_query", "rlm_context_query", "Query the project",
         "Finds the parts of the project's files that answer a question: ranked sections with file and lines, within a token "
         "budget. Ranked by keywords, whatever search_mode says.",
         "{\"query\":" TEXT(10000, "Question or topic to search for") ",\"max_tokens\":" NUMBER(
                 2000, 100, 100000, "Maximum tokens in the answer, at 4 bytes each") ","
         "\"search_mode\":{\"type\":\"string\",\"enum\":[\"keyword\",\"semantic\",\"hybrid\"],\"default\":\"hybrid\","
         "\"description\":\"Search mode; all are served by keyword ranking here\"},"
         "\"prefer_summaries\":{\"type\":\"boolean\",\"default\":false,\"description\":\"The beginning of each section "
         "instead of all of it\"},"
         "\"include_metadata\":{\"type\":\"boolean\",\"default\":true,\"description\":\"Include score, level and tokens of "
         "each section\"}}",
         "[\"query\"]", false, false, false},
        {"snipara_search", "rlm_search", "Search the project",
         "Finds the lines of the project's files that match a regular expression (PCRE2, line by line).",
         "{\"pattern\":" TEXT(1000, "Regular expression to search for") ",\"max_results\":" NUMBER(
                 20, 1, 500, "Maximum lines to return") "}",
         "[\"pattern\"]", false, false, false},
        {"snipara_sections", "rlm_sections", "List the project's sections",
         "Lists the indexed sections of the project's files, with file and lines.",
         "{\"filter\":" TEXT(1000, "Beginning of the titles or file paths to list (case-insensitive)") ",\"limit\":" NUMBER(
                 20, 1, 500, "Maximum sections to return") ",\"offset\":" NUMBER(0, 0, 2147483647,
                                                                               "Number of sections to skip") "}",
         "[]", false, false, false},
        {"snipara_read", "rlm_read", "Read lines of the project",
         "Reads lines of a file of the project, at most 200 in one call. Without a file, lines are counted through all "
         "indexed files.",
         "{\"start_line\":" COUNT(1, 2147483647, "First line, from 1") ",\"end_line\":" COUNT(
                 1, 2147483647, "Last line, inclusive") ",\"file\":" TEXT(4096, "Path of the file, relative to the project") "}",
         "[\"start_line\",\"end_line\"]", false, false, false},
        {"snipara_remember", "rlm_remember", "Remember",
         "Keeps a memory of this project for later. Types: fact, decision, learning, preference, todo, context.",
         "{\"content\":" TEXT(60000, "What to remember") ",\"type\":" TYPES
         ",\"default\":\"fact\",\"description\":\"Memory type\"},\"scope\":" SCOPES
         ",\"default\":\"project\",\"description\":\"Memory scope\"},\"category\":" TEXT(200, "Category for grouping")
         ",\"ttl_days\":" COUNT(1, 36500, "Days until it expires; permanent if not given") ",\"related_to\":" TEXTS(
                 "IDs of related memories") ",\"document_refs\":" TEXTS("Paths of the documents it is about") "}",
         "[\"content\"]", true, true, false},
        {"snipara_recall", "rlm_recall", "Recall",
         "Finds memories of this project by the words of a query, the most relevant first.",
         "{\"query\":" TEXT(10000, "Search query") ",\"limit\":" NUMBER(5, 1, 500, "Maximum memories to return")
         ",\"min_relevance\":{\"type\":\"number\",\"default\":0.5,\"minimum\":0,\"maximum\":1,\"description\":\"Minimum "
         "relevance: 1 has all words of the query, 0.5 a quarter of them\"},"
         "\"type\":" TYPES ",\"description\":\"Only of this type\"},\"scope\":" SCOPES
         ",\"description\":\"Only of this scope\"},\"category\":" TEXT(200, "Only of this category") "}",
         "[\"query\"]", true, false, false},
        {"snipara_memories", "rlm_memories", "List memories", "Lists the memories of this project, the newest first.",
         "{\"type\":" TYPES ",\"description\":\"Only of this type\"},\"scope\":" SCOPES
         ",\"description\":\"Only of this scope\"},\"category\":" TEXT(200, "Only of this category")
         ",\"search\":" TEXT(1000, "Text that the content must have") ",\"limit\":" NUMBER(
                 20, 1, 500, "Maximum memories to return") ",\"offset\":" NUMBER(0, 0, 2147483647, "Number to skip") "}",
         "[]", true, false, false},
        {"snipara_forget", "rlm_forget", "Forget",
         "Deletes the memories of this project that fit all of what is given; at least one must be.",
         "{\"memory_id\":" TEXT(100, "ID of one memory") ",\"type\":" TYPES
         ",\"description\":\"All of this type\"},\"category\":" TEXT(200, "All of this category")
         ",\"older_than_days\":" COUNT(0, 36500, "Memories older than so many days") "}",
         "[]", true, true, true},
};

static json_t *definition_json(const struct definition *definition) {
        json_t *properties = json_loads(definition->properties, JSON_REJECT_DUPLICATES, NULL);
        json_t *required = json_loads(definition->required, 0, NULL);

        return json_pack("{s:s,s:s,s:s,s:{s:s,s:o,s:o,s:b},s:{s:b,s:b,s:b,s:b},s:{s:[s],s:b}}", "name", definition->name,
                         "title", definition->title, "description", definition->description, "inputSchema", "type",
                         "object", "properties", properties, "required", required, "additionalProperties", 0, "annotations",
                         "readOnlyHint", !definition->writes, "destructiveHint", definition->destroys, "idempotentHint",
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
