/* SPDX-License-Identifier: Apache-2.0 */
/* FINAL: the answer of a run, or of a sub-completion. The first one counts. */
#include "agent/run.h"
#include "base/cleanup.h"
#include "base/error.h"

static bool set_run_answer(struct sbx_run *run, char **text, const char *source) {
        SBX_LOCKED(&run->lock);
        if (run->answer != NULL)
                return false;
        run->answer = steal_pointer(*text);
        run->answer_source = source;
        return true;
}

static bool set_sub_answer(const struct sbx_place *place, char **text) {
        SBX_LOCKED(&place->run->lock);
        if (place->answer->text != NULL)
                return false;
        place->answer->text = steal_pointer(*text);
        return true;
}

bool sbx_run_set_answer(struct sbx_run *run, const char *answer, const char *source) {
        _cleanup_free_ char *text = strdup(answer);

        return text != NULL && set_run_answer(run, &text, source);
}

bool sbx_run_has_answer(struct sbx_run *run) {
        SBX_LOCKED(&run->lock);
        return run->answer != NULL;
}

char *sbx_run_take_answer(struct sbx_run *run, const char **ret_source) {
        SBX_LOCKED(&run->lock);
        if (run->answer != NULL)
                *ret_source = run->answer_source;
        return steal_pointer(run->answer);
}

int sbx_place_set_answer(const struct sbx_place *place, const char *answer, const char *source, struct sbx_error *err) {
        _cleanup_free_ char *text = strdup(answer);

        if (text == NULL)
                return SBX_NOMEM(err, SBX_AGENT_ORIGIN);
        if (place->answer != NULL ? set_sub_answer(place, &text) : set_run_answer(place->run, &text, source))
                return 0;
        return sbx_error_set(err, -EALREADY, SBX_AGENT_ORIGIN, NULL,
                             "the answer was given already: the first one counts");
}

bool sbx_place_has_answer(const struct sbx_place *place) {
        if (place->answer == NULL)
                return sbx_run_has_answer(place->run);
        SBX_LOCKED(&place->run->lock);
        return place->answer->text != NULL;
}
