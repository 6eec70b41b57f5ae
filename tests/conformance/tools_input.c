/* SPDX-License-Identifier: Apache-2.0 */
/* Tools whose call takes several rounds with a modern client (SEP-2322): test_input_required_result_*. Each just asks
 * and waits; the rounds are the server's business. */
#include "fixtures.h"

/* clang-format off */
static const char name_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
static const char color_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]});
static const char confirm_form[] = FIXTURE_JSON({
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
/* clang-format on */

/* Text of the first message block that the client's model wrote. */
static const char *sampled_text(const json_t *responses, const char *key) {
        const json_t *content = json_object_get(json_object_get(responses, key), "content");
        const char *text = json_string_value(json_object_get(content, "text"));

        return text != NULL ? text : "nothing";
}

static size_t root_count(const json_t *responses, const char *key) {
        return json_array_size(json_object_get(json_object_get(responses, key), "roots"));
}

/* One form with one string, `field`; `ret_text` is a copy of what the user wrote, or of "nobody". */
static int ask_text(const struct fixture_call *call, const char *key, const char *message, const char *schema,
                    const char *field, json_t **ret_text) {
        json_t *responses = NULL, *text;
        const char *answer;
        int r = fixture_ask(call, json_pack("{s:o}", key, fixture_elicitation(message, schema)), &responses);

        if (r < 0)
                return r;
        answer = fixture_form_text(responses, key, field);
        text = json_string(answer != NULL ? answer : "nobody");
        json_decref(responses);
        if (text == NULL)
                return fixture_nomem(call->err);
        *ret_text = text;
        return 0;
}

static int elicitation(const struct fixture_call *call, json_t **ret_result) {
        json_t *name = NULL;
        int r = ask_text(call, "user_name", "What is your name?", name_form, "name", &name);

        if (r == 0)
                r = fixture_text(call, ret_result, "Hello, %s!", json_string_value(name));
        json_decref(name);
        return r;
}

static int sampling(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        int r = fixture_ask(
                call, json_pack("{s:o}", "capital_question", fixture_sampling("What is the capital of France?", 100)),
                &responses);

        if (r == 0)
                r = fixture_text(call, ret_result, "The model said: %s", sampled_text(responses, "capital_question"));
        json_decref(responses);
        return r;
}

static int list_roots(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        int r = fixture_ask(call, json_pack("{s:o}", "client_roots", fixture_roots()), &responses);

        if (r == 0)
                r = fixture_text(call, ret_result, "The client has %zu roots.", root_count(responses, "client_roots"));
        json_decref(responses);
        return r;
}

static int confirm(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        const json_t *ok;
        int r = fixture_ask(call, json_pack("{s:o}", "confirm", fixture_elicitation("Please confirm", confirm_form)),
                            &responses);

        if (r < 0)
                return r;
        /* That the state came back as it was made is what brought us here. */
        ok = json_object_get(json_object_get(json_object_get(responses, "confirm"), "content"), "ok");
        r = fixture_text(call, ret_result, "state-ok: %s", json_is_true(ok) ? "confirmed" : "not confirmed");
        json_decref(responses);
        return r;
}

static int multiple_inputs(const struct fixture_call *call, json_t **ret_result) {
        json_t *responses = NULL;
        const char *name;
        int r = fixture_ask(call,
                            json_pack("{s:o, s:o, s:o}", "user_name",
                                      fixture_elicitation("What is your name?", name_form), "greeting",
                                      fixture_sampling("Generate a greeting", 50), "client_roots", fixture_roots()),
                            &responses);

        if (r < 0)
                return r;
        name = fixture_form_text(responses, "user_name", "name");
        r = fixture_text(call, ret_result, "%s %s (%zu roots)", sampled_text(responses, "greeting"),
                         name != NULL ? name : "nobody", root_count(responses, "client_roots"));
        json_decref(responses);
        return r;
}

static int multi_round(const struct fixture_call *call, json_t **ret_result) {
        json_t *name = NULL, *color = NULL;
        int r = ask_text(call, "step1", "Step 1: What is your name?", name_form, "name", &name);

        if (r == 0)
                r = ask_text(call, "step2", "Step 2: What is your favorite color?", color_form, "color", &color);
        if (r == 0)
                r = fixture_text(call, ret_result, "%s likes %s.", json_string_value(name), json_string_value(color));
        json_decref(name);
        json_decref(color);
        return r;
}

/* Asks for what this client can do, and for nothing else. */
static int capabilities(const struct fixture_call *call, json_t **ret_result) {
        json_t *requests = json_object(), *responses = NULL;
        uint32_t can = call->client->capabilities;
        size_t count;
        int r = 0;

        if ((can & SBX_CLIENT_ELICITATION) != 0)
                r |= json_object_set_new(requests, "user_name", fixture_elicitation("What is your name?", name_form));
        if ((can & SBX_CLIENT_SAMPLING) != 0)
                r |= json_object_set_new(requests, "greeting", fixture_sampling("Generate a greeting", 50));
        if ((can & SBX_CLIENT_ROOTS) != 0)
                r |= json_object_set_new(requests, "client_roots", fixture_roots());
        count = json_object_size(requests);
        if (r != 0 || requests == NULL) {
                json_decref(requests);
                return fixture_nomem(call->err);
        }
        if (count == 0) {
                json_decref(requests);
                return fixture_text(call, ret_result, "This client can't be asked anything.");
        }
        r = fixture_ask(call, requests, &responses);
        json_decref(responses);
        return r < 0 ? r : fixture_text(call, ret_result, "The client answered %zu questions.", count);
}

/* clang-format off */
static const struct fixture tools[] = {
        {"test_input_required_result_capabilities", FIXTURE_JSON({
                "description": "Asks for whatever the client can do."}), capabilities},
        {"test_input_required_result_elicitation", FIXTURE_JSON({
                "description": "Asks the user for a name."}), elicitation},
        {"test_input_required_result_list_roots", FIXTURE_JSON({
                "description": "Asks for the client's roots."}), list_roots},
        {"test_input_required_result_multi_round", FIXTURE_JSON({
                "description": "Asks the user twice, one question after the other."}), multi_round},
        {"test_input_required_result_multiple_inputs", FIXTURE_JSON({
                "description": "Asks the user, the model and for the roots at once."}), multiple_inputs},
        {"test_input_required_result_request_state", FIXTURE_JSON({
                "description": "Asks the user to confirm."}), confirm},
        {"test_input_required_result_sampling", FIXTURE_JSON({
                "description": "Asks the client's model."}), sampling},
        {"test_input_required_result_tampered_state", FIXTURE_JSON({
                "description": "Asks the user to confirm; its state must come back as it was."}), confirm},
};
/* clang-format on */

const struct fixture_table fixture_tools_input = {tools, FIXTURE_COUNT(tools)};
