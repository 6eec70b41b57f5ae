/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes what a guest can send: the input is its whole side of the control stream. The first byte chooses what the host
 * asks for; its high bit leaves out the handshake that is put before the rest otherwise. For libFuzzer (-Dfuzzers=true
 * with clang); replay.c runs it on files. */
#include <jansson.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "guest/guest.h"
#include "script_backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WITHOUT_HANDSHAKE 0x80
#define STREAM_MAX ((size_t)64 << 10) /* what a socket takes without a reader */
#define OUTPUT_MAX 1000

static void must(bool holds) {
        if (!holds)
                abort();
}

static void check_text(const char *text) {
        must(text == NULL || sbx_utf8_valid((struct sbx_bytes){text, strlen(text)}));
}

static void check_result(const struct sbx_result *result, const struct sbx_guest_process *guest) {
        const char *const texts[] = {result->value,      result->result,        result->result_json,
                                     result->error_type, result->error_message, result->traceback};

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                check_text(texts[i]);
        must(sbx_utf8_valid(result->stdout_text) && sbx_utf8_valid(result->stderr_text));
        must(result->stdout_text.size <= 3 * OUTPUT_MAX);
        must(result->end == SBX_END_OK || result->error_message != NULL);
        must((result->state == SBX_STATE_LOST) == !sbx_guest_alive(guest));
        for (uint32_t i = 0; i < result->display_count; i++)
                must(strlen(result->displays[i].data.data) <= result->displays[i].data.size);
}

static void execute(struct sbx_guest_process *guest, const struct sbx_call *call) {
        struct sbx_guest_execution execution = {
                .code = {"x", 1}, .output_max_bytes = OUTPUT_MAX, .display_max_bytes = 1000};
        struct sbx_result *result = NULL;

        if (sbx_guest_execute(guest, &execution, call, &result, NULL) < 0)
                return;
        check_result(result, guest);
        sbx_result_free(result);
}

static void ask(struct sbx_guest_process *guest, unsigned what, const struct sbx_call *call) {
        struct sbx_buffer content = {.max = 100};
        struct sbx_error err = {0};
        json_t *answer = NULL;
        char *repr = NULL;
        int r = 0;

        switch (what % 6) {
        case 0:
                execute(guest, call);
                break;
        case 1:
                r = sbx_guest_get(guest, NULL, call, &answer, &err);
                break;
        case 2:
                answer = json_true();
                r = sbx_guest_set(guest, "x", answer, call, &repr, &err);
                break;
        case 3:
                r = sbx_guest_clear(guest, call, &err);
                break;
        case 4:
                r = sbx_guest_file_read(guest, "x", 100, call, &content, &err);
                break;
        default:
                r = sbx_guest_file_list(guest, ".", call, &answer, NULL, &err);
        }
        must(r <= 0 && (r == 0 || err.message[0] != '\0'));
        json_decref(answer);
        free(repr);
        free(content.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static char stream[STREAM_MAX];
        struct script_backend script = {0};
        struct sbx_guest_spec spec = {.struct_size = sizeof(spec), .label = "fuzz", .runtime = "python"};
        struct sbx_call call = {.struct_size = sizeof(call), .cancel_fd = -1};
        struct sbx_guest_process *guest = NULL;
        size_t ready = 0;

        if (size == 0 || size - 1 > STREAM_MAX - SCRIPT_READY_SIZE)
                return 0;
        if ((data[0] & WITHOUT_HANDSHAKE) == 0) {
                ready = SCRIPT_READY_SIZE;
                memcpy(stream, SCRIPT_READY, ready);
        }
        memcpy(stream + ready, data + 1, size - 1);
        script_backend_init(&script);
        script.stream = (struct sbx_bytes){stream, ready + size - 1};
        if (sbx_guest_start(&script.instance, NULL, &spec, &call, &guest, NULL) < 0)
                return 0;
        /* Twice: what the first request left over meets the second. */
        ask(guest, data[0], &call);
        ask(guest, (unsigned)data[0] >> 3, &call);
        sbx_guest_free(guest);
        return 0;
}
