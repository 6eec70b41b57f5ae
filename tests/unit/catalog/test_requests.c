/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the catalog: who is asked, and what of the answers goes out. */
#include "fake_part.h"

static void test_resources(void **state) {
        struct fake_part
                first = {.name = "first",
                         .answers[SBX_REQUEST_RESOURCES] =
                                 "{'resources':[{'uri':'x:b','name':'b','size':3},{'uri':'x:a','name':'a'}]}"},
                second = {.name = "second",
                          .answers[SBX_REQUEST_RESOURCES] =
                                  "{'resources':[{'uri':'x:a','name':'other'},{'uri':'x:c','name':'c','size':-1},"
                                  "{'uri':'no uri','name':'d'}]}"},
                none = {.name = "none"}, odd = {.name = "odd", .answers[SBX_REQUEST_RESOURCES] = "[]"};
        struct sbx_catalog *catalog = fake_catalog();

        assert_string_equal(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, NULL), "{'resources':[]}");
        fake_add(catalog, &first);
        fake_add(catalog, &none);
        fake_add(catalog, &second);
        fake_add(catalog, &odd);
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, ""),
                            "{'resources':[{'uri':'x:a','name':'a'},{'uri':'x:b','name':'b','size':3}]}");
        assert_string_equal(first.last, "- token:me {}");
        assert_contains(fake_log.lines, "second: 'x:a' of its resources is not used: first has it already");
        assert_contains(fake_log.lines, "its size is no number");
        assert_contains(fake_log.lines, "'no uri' is no URI");
        assert_contains(fake_log.lines, "odd: its resources are left out: odd: its answer is no JSON object");
        second.status = -EIO;
        assert_contains(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, ""), "'x:a'");
        assert_contains(fake_log.lines, "second says no");
        second.status = -ECANCELED; /* whoever asked has gone */
        assert_contains(fake_ask(catalog, SBX_REQUEST_RESOURCES, NULL, ""), "-125: ");
        sbx_catalog_free(catalog);
}

static void test_read(void **state) {
        struct fake_part first = {.name = "first"},
                         second = {.name = "second",
                                   .answers[SBX_REQUEST_READ] =
                                           "{'contents':[{'uri':'x:a','mimeType':'text/plain','text':''}]}"};
        struct sbx_catalog *catalog = fake_catalog();

        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "x:a", NULL), "-2: there is no resource 'x:a'");
        fake_add(catalog, &first);
        fake_add(catalog, &second);
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "x:a", NULL),
                            "{'contents':[{'uri':'x:a','mimeType':'text/plain','text':''}]}");
        assert_string_equal(first.last, "x:a token:me {}");
        /* The first that does not say -ENOENT answers; its failure is the answer, too. */
        first.status = -EACCES;
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "x:a", NULL), "-13: first says no");
        assert_int_equal(second.asked, 1);
        /* Of those that all say -ENOENT, the first that says more. */
        first.status = second.status = -ENOENT;
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_READ, "x:a", NULL), "-2: first says no");
        assert_contains(fake_ask(catalog, SBX_REQUEST_READ, "a", NULL), "-22: 'a' is no URI");
        assert_contains(fake_ask(catalog, SBX_REQUEST_READ, "x:a\n", NULL), "is no URI");
        assert_contains(fake_ask(catalog, SBX_REQUEST_READ, NULL, NULL), "-22: ");
        assert_int_equal(second.asked, 2);
        sbx_catalog_free(catalog);
}

static void test_bad_contents(void **state) {
        static const struct {
                const char *answer, *told;
        } bad[] = {
                {"{}", "must be an array of 1 to"},
                {"{'contents':[]}", "must be an array of 1 to"},
                {"{'contents':[{'text':''}]}", "uri must be a text"},
                {"{'contents':[{'uri':'x:a'}]}", "either a text or a blob"},
                {"{'contents':[{'uri':'x:a','text':'','blob':''}]}", "either a text or a blob"},
                {"{'contents':[{'uri':'x:a','text':5}]}", "text must be a text"},
                {"{'contents':[{'uri':'x:a','blob':'AAA'}]}", "blob is no base64"},
                {"{'contents':[{'uri':'x:a','blob':'A=AA'}]}", "blob is no base64"},
                {"{'contents':[{'uri':'x:a','blob':'A==='}]}", "blob is no base64"},
                {"{'contents':[{'uri':'x:a','text':'','mimeType':7}]}", "mimeType must be a text"},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct fake_part part = {.name = "part", .answers[SBX_REQUEST_READ] = bad[i].answer};
                struct sbx_catalog *catalog = fake_catalog();
                const char *answer;

                fake_add(catalog, &part);
                answer = fake_ask(catalog, SBX_REQUEST_READ, "x:a", NULL);
                assert_contains(answer, "-74: part: reading 'x:a': ");
                assert_contains(answer, bad[i].told);
                sbx_catalog_free(catalog);
        }
}

#define PROMPTS "[{'name':'greet','arguments':[{'name':'who','required':true},{'name':'how'}]},{'name':'plain'}]"
#define GREETING                                                                                                       \
        "{'description':'d','messages':[{'role':'user','content':{'type':'text','text':'hi'}}],'_meta':{'a':1}}"

static void test_prompts(void **state) {
        struct fake_part first = {.name = "first", .answers[SBX_REQUEST_PROMPT] = "{'messages':[]}"},
                         second = {.name = "second", .prompts = PROMPTS, .answers[SBX_REQUEST_PROMPT] = GREETING};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &first);
        fake_add(catalog, &second);
        /* It is asked of whoever lists it. */
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_PROMPT, "greet", "{'who':'you'}"), GREETING);
        assert_int_equal(first.asked, 0);
        assert_string_equal(second.last, "greet token:me {\"who\":\"you\"}");
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", NULL), GREETING);
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "great", NULL),
                        "-2: unknown prompt 'great'; did you mean 'greet'?");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "xyz", NULL), "-2: unknown prompt 'xyz'");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, NULL, NULL), "-22: ");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "greet", "{}"),
                        "-22: arguments.who: required, but missing");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "greet", "{'who':'a','x':'b'}"),
                        "-22: arguments.x: unknown argument");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "greet", "{'who':5}"), "-22: arguments.who: must be");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", "{'who':'a'}"), "unknown argument");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", "[]"), "-22: arguments: must be a JSON object");
        assert_contains(fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", "{"), "-22: ");
        assert_int_equal(second.asked, 2);
        second.status = -EPROTO;
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", NULL), "-71: second says no");
        sbx_catalog_free(catalog);
}

static void test_bad_messages(void **state) {
        static const struct {
                const char *answer, *told;
        } bad[] = {
                {"{}", "messages must be an array"},
                {"{'description':5,'messages':[]}", "description must be a text"},
                {"{'messages':[{'role':'system','content':{'type':'text','text':''}}]}", "the user or the assistant"},
                {"{'messages':[{'content':{'type':'text','text':''}}]}", "the user or the assistant"},
                {"{'messages':[{'role':'user'}]}", "without a type"},
                {"{'messages':[{'role':'user','content':[]}]}", "without a type"},
                {"{'messages':[{'role':'user','content':{'type':'video'}}]}", "unknown type 'video'"},
                {"{'messages':[{'role':'user','content':{'type':'text'}}]}", "text must be a text"},
                {"{'messages':[{'role':'user','content':{'type':'image','data':'AAAA'}}]}", "mimeType must be a text"},
                {"{'messages':[{'role':'user','content':{'type':'image','data':'?','mimeType':'a/b'}}]}", "no base64"},
                {"{'messages':[{'role':'user','content':{'type':'resource'}}]}", "uri must be a text"},
                {"{'messages':[{'role':'user','content':{'type':'resource_link','uri':'x:a'}}]}", "name must be"},
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct fake_part part = {
                        .name = "part", .prompts = PROMPTS, .answers[SBX_REQUEST_PROMPT] = bad[i].answer};
                struct sbx_catalog *catalog = fake_catalog();
                const char *answer;

                fake_add(catalog, &part);
                answer = fake_ask(catalog, SBX_REQUEST_PROMPT, "plain", NULL);
                assert_contains(answer, "-74: part: prompt 'plain': ");
                assert_contains(answer, bad[i].told);
                sbx_catalog_free(catalog);
        }
}

#define COMPLETE(type, key, value)                                                                                     \
        "{'ref':{'type':'ref/" type "','" key "':'" value "'},'argument':{'name':'who','value':'a'}}"
#define NOTHING "{'completion':{'values':[],'total':0,'hasMore':false}}"

static void test_completions(void **state) {
        struct fake_part first = {.name = "first",
                                  .templates = "[{'uriTemplate':'x://{who}','name':'x'}]",
                                  .answers[SBX_REQUEST_COMPLETION] = "{'completion':{'values':['template']}}"},
                         second = {.name = "second",
                                   .prompts = PROMPTS,
                                   .answers[SBX_REQUEST_COMPLETION] = "{'completion':{'values':['prompt'],'total':5}}"};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &first);
        fake_add(catalog, &second);
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "greet")),
                            "{'completion':{'values':['prompt'],'total':5,'hasMore':true}}");
        assert_int_equal(first.asked, 0);
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("resource", "uri", "x://{who}")),
                            "{'completion':{'values':['template'],'total':1,'hasMore':false}}");
        assert_int_equal(second.asked, 1);
        /* An address that is no template: any part may know it. */
        first.status = -ENOENT;
        assert_contains(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("resource", "uri", "x://y")),
                        "prompt");
        /* What nobody knows has no values. */
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "none")),
                            NOTHING);
        second.status = -ENOENT;
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "greet")),
                            NOTHING);
        assert_string_equal(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("resource", "uri", "x://y")),
                            NOTHING);
        second.status = -EIO;
        assert_contains(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "greet")),
                        "-5: second: completing 'greet': second says no");
        sbx_catalog_free(catalog);
}

static void test_bad_completions(void **state) {
        static const char *const refused[] = {
                "{}",
                "{'ref':{'type':'ref/prompt','name':'greet'}}",
                "{'ref':'greet','argument':{'name':'a','value':''}}",
                "{'ref':{'type':'ref/tool','name':'greet'},'argument':{'name':'a','value':''}}",
                "{'ref':{'type':'ref/prompt','uri':'greet'},'argument':{'name':'a','value':''}}",
                "{'ref':{'type':'ref/prompt','name':'greet'},'argument':{'name':'a'}}",
                "{'ref':{'type':'ref/prompt','name':'greet'},'argument':{'name':1,'value':''}}",
                "{'ref':{'type':'ref/prompt','name':'greet'},'argument':{'name':'a','value':''},'context':1}",
        };
        static const struct {
                const char *answer, *result;
        } answers[] = {
                {"{}", "a completion without values"},
                {"{'completion':{'values':'x'}}", "a completion without values"},
                {"{'completion':{'values':[1]}}", "values[0] of a completion"},
                {"{'completion':{'values':['a'],'total':0}}", "{'completion':{'values':['a'],'hasMore':false}}"},
                {"{'completion':{'values':['a'],'total':'many','hasMore':5}}",
                 "{'completion':{'values':['a'],'hasMore':false}}"},
                {"{'completion':{'values':['a'],'hasMore':true}}", "{'completion':{'values':['a'],'hasMore':true}}"},
        };
        struct fake_part part = {.name = "part", .prompts = PROMPTS};
        struct sbx_catalog *catalog = fake_catalog();

        fake_add(catalog, &part);
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
                assert_contains(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, refused[i]), "-22: ");
        assert_int_equal(part.asked, 0);
        for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
                part.answers[SBX_REQUEST_COMPLETION] = answers[i].answer;
                assert_contains(fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "greet")),
                                answers[i].result);
        }
        sbx_catalog_free(catalog);
}

/* More than the protocol allows. */
static void test_many_values(void **state) {
        _cleanup_buffer_ struct sbx_buffer text = SBX_BUFFER(1 << 20);
        struct fake_part part = {.name = "part", .prompts = PROMPTS};
        struct sbx_catalog *catalog = fake_catalog();
        const char *answer;

        assert_int_equal(sbx_buffer_append_text(&text, "{'completion':{'values':["), 0);
        for (int i = 0; i < 130; i++)
                assert_int_equal(sbx_buffer_printf(&text, "%s'v%d'", i > 0 ? "," : "", i), 0);
        assert_int_equal(sbx_buffer_append_text(&text, "]}}"), 0);
        part.answers[SBX_REQUEST_COMPLETION] = text.data;
        fake_add(catalog, &part);
        answer = fake_ask(catalog, SBX_REQUEST_COMPLETION, NULL, COMPLETE("prompt", "name", "greet"));
        assert_contains(answer, "'v99'],'total':130,'hasMore':true}}");
        assert_null(strstr(answer, "'v100'"));
        sbx_catalog_free(catalog);
}

static void test_other_kinds(void **state) {
        struct sbx_catalog *catalog = fake_catalog();

        assert_contains(fake_ask(catalog, SBX_REQUEST_TOOL, "x", NULL), "-22: ");
        assert_contains(fake_ask(catalog, 99, "x", NULL), "-22: ");
        sbx_catalog_free(catalog);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_resources),       cmocka_unit_test(test_read),
                cmocka_unit_test(test_bad_contents),    cmocka_unit_test(test_prompts),
                cmocka_unit_test(test_bad_messages),    cmocka_unit_test(test_completions),
                cmocka_unit_test(test_bad_completions), cmocka_unit_test(test_many_values),
                cmocka_unit_test(test_other_kinds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
