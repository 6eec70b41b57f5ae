/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Schema 2020-12: one row for each thing that a keyword lets pass or refuses, the bounds, and what is filled in.
 */
#include "../test.h"

#include <stdlib.h>

#include "base/json.h"
#include "tools/schema.h"
#include "tools/state.h"

/* Single quotes stand for double ones, so that the rows can be read. */
static json_t *parse(const char *quoted) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);
        struct sbx_error err = {0};
        json_t *value = NULL;

        assert_int_equal(sbx_buffer_append_text(&text, quoted), 0);
        for (size_t i = 0; i < text.size; i++)
                if (text.data[i] == '\'')
                        text.data[i] = '"';
        if (sbx_json_parse_any(sbx_buffer_bytes(&text), 1 << 20, "test", &value, &err) < 0)
                fail_msg("%s: %s", quoted, err.message);
        return value;
}

struct row {
        const char *schema, *value, *refused; /* NULL: it fits */
};

/* The value is "v" of the arguments; `schema` is its own, and the document's $defs are below. */
static const struct row rows[] = {
        /* booleans are schemas */
        {"true", "1", NULL},
        {"false", "1", "arguments.v: nothing is allowed here"},
        {"{'items':false}", "[]", NULL},
        {"{'items':false}", "[1]", "arguments.v[0]: nothing is allowed here"},
        /* const and enum: numbers are equal when they are mathematically, containers member by member */
        {"{'const':'phone'}", "'phone'", NULL},
        {"{'const':'phone'}", "'email'", "arguments.v: must be 'phone'"},
        {"{'const':1}", "1.0", NULL},
        {"{'const':1}", "true", "not the one value"},
        {"{'const':{'a':[1,{}]}}", "{'a':[1.0,{}]}", NULL},
        {"{'const':{'a':[1,{}]}}", "{'a':[1,{'b':0}]}", "not the one value"},
        {"{'const':{'a':1}}", "{'b':1}", "not the one value"},
        {"{'enum':[null,[1,2],'x']}", "[1,2]", NULL},
        {"{'enum':[null,[1,2],'x']}", "[2,1]", "not one of the values"},
        /* composition */
        {"{'allOf':[{'type':'integer'},{'minimum':3}]}", "3", NULL},
        {"{'allOf':[{'type':'integer'},{'minimum':3}]}", "2", "at least 3"},
        {"{'anyOf':[{'type':'integer'},{'minLength':2}]}", "'ab'", NULL},
        {"{'anyOf':[{'type':'integer'},{'minLength':2}]}", "7", NULL},
        {"{'anyOf':[{'type':'integer'},{'minLength':2}]}", "'a'",
         "none of 2 alternatives fits: (1) arguments.v: must be of type integer, not string; (2) arguments.v: has 1 c"},
        {"{'oneOf':[{'multipleOf':2},{'multipleOf':3}]}", "4", NULL},
        {"{'oneOf':[{'multipleOf':2},{'multipleOf':3}]}", "6", "more than one of 2 alternatives"},
        {"{'oneOf':[{'multipleOf':2},{'multipleOf':3}]}", "5", "none of 2 alternatives fits"},
        {"{'not':{'type':'string'}}", "1", NULL},
        {"{'not':{'type':'string'}}", "'x'", "is of a kind that is not allowed here"},
        {"{'not':false}", "'x'", NULL},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':0}}", "'ab'", NULL},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':0}}", "'a'", "at least 2"},
        {"{'if':{'type':'string'},'then':{'minLength':2},'else':{'minimum':0}}", "-1", "at least 0"},
        {"{'if':{'type':'string'},'else':false}", "'a'", NULL},
        {"{'then':false,'else':false}", "'a'", NULL},
        /* references */
        {"{'$ref':'#/$defs/small'}", "9", NULL},
        {"{'$ref':'#/$defs/small'}", "10", "at most 9"},
        {"{'$ref':'#/$defs/small','minimum':5}", "4", "at least 5"},
        {"{'$ref':'#smallest'}", "2", "at most 1"},
        {"{'$ref':'#/$defs/a~1b'}", "1", "must be of type string"},
        {"{'$ref':'#/$defs/a~0b'}", "1", "must be of type null"},
        {"{'$ref':'#/$defs/a%20b'}", "1", "must be of type boolean"},
        {"{'$ref':'#/$defs/list/prefixItems/1'}", "1", "must be of type array"},
        {"{'$ref':'https://example.com/own#/$defs/small'}", "10", "at most 9"},
        {"{'$ref':'https://example.com/own#smallest'}", "2", "at most 1"},
        {"{'$ref':'#/$defs/tree'}", "{'left':{'left':{},'right':{'left':{}}}}", NULL},
        {"{'$ref':'#/$defs/tree'}", "{'left':{'left':{},'right':{'left':1}}}",
         "arguments.v.left.right.left: must be of type object"},
        /* members */
        {"{'additionalProperties':{'type':'integer'},'properties':{'a':{}}}", "{'a':'x','b':1}", NULL},
        {"{'additionalProperties':{'type':'integer'},'properties':{'a':{}}}", "{'b':'x'}",
         "arguments.v.b: must be of type integer"},
        {"{'additionalProperties':false,'patternProperties':{'^x':{}}}", "{'xy':1}", NULL},
        {"{'properties':{'a':false}}", "{'b':1}", NULL},
        {"{'properties':{'a':false}}", "{'a':1}", "arguments.v.a: nothing is allowed here"},
        {"{'propertyNames':{'maxLength':2}}", "{'ab':1}", NULL},
        {"{'propertyNames':{'maxLength':2}}", "{'abc':1}", "the name 'abc'"},
        {"{'minProperties':1,'maxProperties':2}", "{}", "has 0 members"},
        {"{'minProperties':1,'maxProperties':2}", "{'a':1,'b':1,'c':1}", "has 3 members"},
        {"{'dependentRequired':{'a':['b']}}", "{'b':1}", NULL},
        {"{'dependentRequired':{'a':['b']}}", "{'a':1}", "arguments.v.b: required, but missing"},
        {"{'dependentSchemas':{'a':{'maxProperties':1}}}", "{'a':1}", NULL},
        {"{'dependentSchemas':{'a':{'maxProperties':1}}}", "{'a':1,'b':1}", "at most 1 are allowed"},
        /* items */
        {"{'prefixItems':[{'type':'string'}],'items':{'type':'integer'}}", "['a',1,2]", NULL},
        {"{'prefixItems':[{'type':'string'}],'items':{'type':'integer'}}", "[1]",
         "arguments.v[0]: must be of type str"},
        {"{'prefixItems':[{'type':'string'}],'items':{'type':'integer'}}", "['a','b']", "arguments.v[1]: must be of"},
        {"{'prefixItems':[{},{}],'items':false}", "[1,2]", NULL},
        {"{'prefixItems':[{},{}],'items':false}", "[1,2,3]", "arguments.v[2]: nothing is allowed"},
        {"{'contains':{'const':7}}", "[1,7]", NULL},
        {"{'contains':{'const':7}}", "[]", "has 0 items of the kind"},
        {"{'contains':{'const':7},'minContains':0}", "[]", NULL},
        {"{'contains':{'const':7},'maxContains':1}", "[7,7]", "has 2 items of the kind"},
        {"{'uniqueItems':true}", "[1,'1',[1],{'a':1}]", NULL},
        {"{'uniqueItems':true}", "[{'a':1,'b':2},3,{'b':2,'a':1.0}]", "items 0 and 2 are the same"},
        /* numbers */
        {"{'exclusiveMinimum':0,'exclusiveMaximum':1}", "0.5", NULL},
        {"{'exclusiveMinimum':0,'exclusiveMaximum':1}", "0", "greater than 0"},
        {"{'exclusiveMinimum':0,'exclusiveMaximum':1}", "1", "less than 1"},
        {"{'multipleOf':0.1}", "0.3", NULL},
        {"{'multipleOf':0.1}", "-0.3", NULL},
        {"{'multipleOf':0.1}", "0.35", "no multiple of 0.1"},
        {"{'multipleOf':3}", "-9", NULL},
        {"{'multipleOf':3}", "1e300", NULL},
        {"{'multipleOf':0}", "5", NULL}, /* no schema has that; it must not divide */
        /* passed over */
        {"{'x-mcp-header':'Region','pattern':'^a+$','format':'date','unevaluatedProperties':false,'what':1}", "'b'",
         NULL},
        {"{'type':5,'enum':1,'allOf':{},'minimum':'x','items':3,'required':'a'}", "[1]", NULL},
};

#define DEFS                                                                                                           \
        "'$id':'https://example.com/own','$schema':'https://json-schema.org/draft/2020-12/schema','$defs':{"           \
        "'small':{'maximum':9},'smallest':{'$anchor':'smallest','maximum':1},'a/b':{'type':'string'},"                 \
        "'a~b':{'type':'null'},'a b':{'type':'boolean'},'list':{'prefixItems':[{},{'type':'array'}]},"                 \
        "'tree':{'type':'object','properties':{'left':{'$ref':'#/$defs/tree'},'right':{'$ref':'#/$defs/tree'}}},"      \
        "'data':{'enum':[{'$anchor':'smallest','$ref':'#/nowhere'}]}}"

static json_t *document(const char *schema) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);

        assert_int_equal(sbx_buffer_printf(&text,
                                           "{'type':'object','properties':{'v':%s},'additionalProperties':false,%s}",
                                           schema, DEFS),
                         0);
        return parse(text.data);
}

static json_t *wrap(const char *value) {
        return json_pack("{s:o}", "v", parse(value));
}

static void test_rows(void **state) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct row *row = &rows[i];
                _cleanup_json_ json_t *schema = document(row->schema), *value = wrap(row->value);
                struct sbx_error err = {0};
                int r;

                if (sbx_schema_check_refs(schema, &err) < 0)
                        fail_msg("%s: %s", row->schema, err.message);
                r = sbx_schema_apply(schema, value, &err);
                if (row->refused == NULL && r != 0)
                        fail_msg("%s and %s: %s", row->schema, row->value, err.message);
                if (row->refused != NULL && !sbx_schema_misfit(r))
                        fail_msg("%s and %s: %d, %s", row->schema, row->value, r, err.message);
                if (row->refused != NULL)
                        assert_contains(err.message, row->refused);
                /* Whoever does not want to know why gets the same answer. */
                if (row->refused != NULL)
                        assert_int_equal(sbx_schema_apply(schema, value, NULL), r);
        }
}

/* The schema of the conformance suite's tool. */
static void test_contact(void **state) {
        static const char schema_text[] =
                "{'$schema':'https://json-schema.org/draft/2020-12/schema','type':'object','$defs':{'address':{"
                "'$anchor':'addressDef','type':'object','properties':{'street':{'type':'string'},'city':{'type':"
                "'string'}}}},'properties':{'name':{'type':'string'},'address':{'$ref':'#/$defs/address'},"
                "'contactMethod':{'type':'string','enum':['phone','email']},'phone':{'type':'string'},'email':{'type':"
                "'string'}},'allOf':[{'anyOf':[{'required':['phone']},{'required':['email']}]}],'if':{'properties':{"
                "'contactMethod':{'const':'phone'}},'required':['contactMethod']},'then':{'required':['phone']},"
                "'else':{'required':['email']},'additionalProperties':false}";
        static const struct {
                const char *arguments, *refused;
        } calls[] = {
                {"{'email':'a'}", NULL},
                {"{'contactMethod':'phone','phone':'1'}", NULL},
                {"{'contactMethod':'phone','email':'a'}", "arguments.phone: required, but missing"},
                {"{'phone':'1'}", "arguments.email: required, but missing"},
                {"{'phone':null,'email':'a'}", NULL}, /* null stands for nothing, here as well */
                {"{'phone':null,'email':null}", "none of 2 alternatives fits: (1) arguments.phone: required"},
                {"{'email':'a','address':{'city':1}}", "arguments.address.city: must be of type string"},
                {"{'email':'a','adress':{}}", "did you mean 'address'"},
        };
        _cleanup_json_ json_t *schema = parse(schema_text);

        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                _cleanup_json_ json_t *arguments = parse(calls[i].arguments);
                struct sbx_error err = {0};
                int r = sbx_schema_apply(schema, arguments, &err);

                assert_int_equal(r, calls[i].refused != NULL ? -EINVAL : 0);
                if (calls[i].refused != NULL)
                        assert_contains(err.message, calls[i].refused);
        }
}

/* Defaults come last and decide nothing; conditions and alternatives change nothing. */
static void test_defaults(void **state) {
        static const char schema_text[] =
                "{'type':'object','properties':{'mode':{'default':'fast'},'inner':{'$ref':'#/$defs/inner'},'many':{"
                "'items':{'$ref':'#/$defs/inner'}}},'$defs':{'inner':{'properties':{'n':{'type':'integer','default':1}}"
                "}},'allOf':[{'properties':{'also':{'default':true}}}],'anyOf':[{'properties':{'no':{'default':1}}}],"
                "'if':{'required':['mode']},'then':{'required':['reason']}}";
        _cleanup_json_ json_t *schema = parse(schema_text), *arguments = parse("{'inner':{},'many':[{},{'n':2.0}]}"),
                              *wanted = parse("{'inner':{'n':1},'many':[{'n':1},{'n':2}],'mode':'fast','also':true}");
        struct sbx_error err = {0};

        assert_int_equal(sbx_schema_apply(schema, arguments, &err), 0);
        assert_true(json_equal(arguments, wanted));
}

/* An integer that came as 5.0 becomes one, also through a reference, and not while an alternative is only tried. */
static void test_whole_numbers(void **state) {
        _cleanup_json_ json_t *schema =
                parse("{'type':'object','$defs':{'n':{'type':'integer'}},'properties':{'a':{'$ref':'#/$defs/n'},'b':{"
                      "'anyOf':[{'type':'integer'}]},'c':{'allOf':[{'type':'integer'}]}}}");
        _cleanup_json_ json_t *arguments = parse("{'a':5.0,'b':5.0,'c':5.0}");

        assert_int_equal(sbx_schema_apply(schema, arguments, NULL), 0);
        assert_true(json_is_integer(json_object_get(arguments, "a")));
        assert_true(json_is_real(json_object_get(arguments, "b")));
        assert_true(json_is_integer(json_object_get(arguments, "c")));
}

static void test_bad_references(void **state) {
        static const char *const dangling[] = {"#/$defs/none", "#nowhere", "#/$defs/small/maximum", "#/%zz", "#/~2"};

        for (size_t i = 0; i < sizeof(dangling) / sizeof(dangling[0]); i++) {
                _cleanup_json_ json_t *schema =
                        json_pack("{s:s, s:{s:{s:s}}, s:{s:{s:i}}}", "type", "object", "properties", "v", "$ref",
                                  dangling[i], "$defs", "small", "maximum", 9);
                _cleanup_json_ json_t *value = wrap("1");
                struct sbx_error err = {0};

                assert_int_equal(sbx_schema_check_refs(schema, &err), -EINVAL);
                assert_contains(err.message, dangling[i]);
                assert_false(sbx_schema_misfit(sbx_schema_apply(schema, value, NULL)));
                assert_int_not_equal(sbx_schema_apply(schema, value, NULL), 0);
        }
}

/* Kept and listed, never fetched: what needs it is refused, and an alternative does not get around it. */
static void test_elsewhere(void **state) {
        static const char *const schemas[] = {"{'$ref':'https://example.com/other.json'}",
                                              "{'anyOf':[{'$ref':'https://example.com/other.json'},true]}",
                                              "{'not':{'$ref':'file:///etc/passwd'}}"};

        for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
                _cleanup_json_ json_t *schema = document(schemas[i]), *value = wrap("1"), *without = json_object();
                struct sbx_error err = {0};

                assert_int_equal(sbx_schema_check_refs(schema, NULL), 0);
                assert_int_equal(sbx_schema_apply(schema, without, NULL), 0);
                assert_int_equal(sbx_schema_apply(schema, value, &err), -ELOOP);
        }
}

/* Schemas that would never end, or take for ever. */
static void test_bounds(void **state) {
        static const char *const loops[] = {"{'$ref':'#/properties/v'}", "{'allOf':[{'$ref':'#/properties/v'}]}",
                                            "{'not':{'$ref':'#/properties/v'}}",
                                            "{'anyOf':[{'$ref':'#/properties/v'},true]}"};
        static const char twice[] = "{'anyOf':[{'$ref':'#/$defs/%u'},{'$ref':'#/$defs/%u'}]}";
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);

        for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
                _cleanup_json_ json_t *schema = document(loops[i]), *value = wrap("1");

                assert_int_equal(sbx_schema_apply(schema, value, NULL), -ELOOP);
        }
        /* 2^40 ways to fail. */
        assert_int_equal(
                sbx_buffer_append_text(&text, "{'type':'object','properties':{'v':{'$ref':'#/$defs/0'}},'$defs':{"), 0);
        for (unsigned i = 0; i < 40; i++) {
                assert_int_equal(sbx_buffer_printf(&text, "'%u':", i), 0);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                assert_int_equal(sbx_buffer_printf(&text, twice, i + 1, i + 1), 0);
#pragma GCC diagnostic pop
                assert_int_equal(sbx_buffer_append_text(&text, ","), 0);
        }
        assert_int_equal(sbx_buffer_append_text(&text, "'40':false}}"), 0);
        {
                _cleanup_json_ json_t *schema = parse(text.data), *value = wrap("1");
                struct sbx_error err = {0};

                assert_int_equal(sbx_schema_apply(schema, value, &err), -E2BIG);
                assert_contains(err.message, "takes too long");
        }
        /* A long array whose items have to be compared with each other. */
        {
                _cleanup_json_ json_t *schema = document("{'uniqueItems':true}"), *list = json_array(),
                                      *value = json_pack("{s:O}", "v", list);

                for (int i = 0; i < 10000; i++)
                        json_array_append_new(list, json_integer(i));
                assert_int_equal(sbx_schema_apply(schema, value, NULL), -E2BIG);
        }
}

/* Definitions of a plugin: listed as they came; a reference into the void is told to its author. */
static int run(const struct sbx_tool_context *context, json_t *arguments, json_t **ret_result, struct sbx_error *err) {
        return sbx_error_set(err, -ENOSYS, "test", NULL, "not called");
}

static void test_listed_as_they_came(void **state) {
        static const struct sbx_logger logger = {.level = SBX_LOG_ERROR};
        static const char text[] = "{\"$schema\":\"s\",\"type\":\"object\",\"allOf\":[{\"anyOf\":[true]}],\"if\":{},"
                                   "\"x-mcp-header\":{\"a\":1},\"additionalProperties\":false}";
        struct sbx_tool tool = {
                .name = "t", .description = "d", .input_schema = text, .run = run, .flags = SBX_TOOL_FOREIGN};
        struct sbx_buffer out = SBX_BUFFER(1 << 20);
        struct sbx_tools *tools = NULL;
        struct sbx_error err = {0};

        assert_int_equal(sbx_tools_new(&logger, &tools, NULL), 0);
        assert_int_equal(sbx_tools_add(tools, &tool, &err), 0);
        assert_int_equal(sbx_tools_list(tools, &out, NULL), 0);
        assert_contains(out.data, text);
        tool.name = "ours";
        tool.flags = 0;
        assert_int_equal(sbx_tools_add(tools, &tool, &err), -EINVAL);
        assert_contains(err.message, "must not use allOf");
        err = (struct sbx_error){0};
        tool.flags = SBX_TOOL_FOREIGN;
        tool.input_schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/a\"}}}";
        assert_int_equal(sbx_tools_add(tools, &tool, &err), -EINVAL);
        assert_contains(err.message, "tool 'ours'");
        sbx_buffer_free(&out);
        sbx_tools_free(tools);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),           cmocka_unit_test(test_contact),
                cmocka_unit_test(test_defaults),       cmocka_unit_test(test_whole_numbers),
                cmocka_unit_test(test_bad_references), cmocka_unit_test(test_elsewhere),
                cmocka_unit_test(test_bounds),         cmocka_unit_test(test_listed_as_they_came),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
