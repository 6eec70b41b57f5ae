/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a credential, and asks the service one cheap question with it. */
#include "probe.h"

#include <time.h>

#include "util.h"

static void report(const struct sbx_probe_events *events, int status, const char *subject, const char *detail,
                   const char *remedy) {
        events->report(events->data, status, subject, detail, remedy);
}

/* "..., valid until 2026-01-02 03:04 UTC", for the project '...'. */
static void report_credential(const struct sbx_probe_events *events, const struct snipara_credential *credential) {
        char detail[SNIPARA_SLUG_MAX_BYTES + 160], until[64] = "";
        time_t expires = (time_t)credential->expires_s;
        struct tm utc;

        if (credential->expires && gmtime_r(&expires, &utc) != NULL)
                strftime(until, sizeof(until), ", valid until %Y-%m-%d %H:%M UTC", &utc);
        snprintf(detail, sizeof(detail), "%s%s, for the project '%s'", snipara_source_name(credential->source), until,
                 credential->slug);
        report(events, SBX_PROBE_OK, "credential", detail, NULL);
}

static int report_none(const struct sbx_probe_events *events, int code, const struct sbx_error *problem) {
        if (code == -ENOENT) {
                report(events, SBX_PROBE_OK, "credential", "none: Snipara's tools are not offered, and need not be",
                       NULL);
                return 0;
        }
        report(events, code == -ENOMEM ? SBX_PROBE_FAILED : SBX_PROBE_WARNING, "credential", problem->message,
               problem->hint);
        return code == -ENOMEM ? code : 0;
}

/* Being offline, or a service that is, is no fault of what is installed and configured here. */
static bool passes_by_itself(const struct snipara_failure *failure) {
        static const char *const kinds[] = {"timeout", "unreachable", "rate_limited", "server_error"};

        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(failure->kind, kinds[i]) == 0)
                        return true;
        return false;
}

static int ask_service(struct snipara *snipara, const struct sbx_probe_events *events, const struct sbx_call *call) {
        _cleanup_json_ json_t *arguments = json_pack("{s:i}", "limit", 1), *result = NULL;
        struct snipara_failure failure = {0};
        struct sbx_error err = {0};
        int r;

        if (arguments == NULL)
                return -ENOMEM;
        r = snipara_ask(snipara, snipara_tool_find("snipara_sections"), arguments, call, &result, &failure, &err);
        if (r == 0)
                report(events, SBX_PROBE_OK, "service", "it accepts the credential", NULL);
        else if (r == -EBADMSG)
                report(events, passes_by_itself(&failure) ? SBX_PROBE_WARNING : SBX_PROBE_FAILED, "service",
                       failure.error.message, failure.error.hint);
        else
                report(events, SBX_PROBE_FAILED, "service", err.message, err.hint);
        return r == -EBADMSG && passes_by_itself(&failure) ? 0 : r;
}

int snipara_probe(struct snipara *snipara, const struct sbx_probe_events *events, const struct sbx_call *call) {
        _cleanup_credential_ struct snipara_credential credential = {0};
        struct sbx_error problem = {0};
        int r;

        r = snipara_credentials_file_problem(snipara->credentials, &problem);
        if (r < 0 && r != -ENOENT)
                report(events, SBX_PROBE_WARNING, "tokens", problem.message, problem.hint);
        problem = (struct sbx_error){0};
        r = snipara_credentials_get(snipara->credentials, false, &credential, &problem);
        if (r < 0)
                return report_none(events, r, &problem);
        report_credential(events, &credential);
        return ask_service(snipara, events, call);
}
