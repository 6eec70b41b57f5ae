/* SPDX-License-Identifier: Apache-2.0 */
/* How many sessions each principal has, so that one client can't take the place of all. */
#include "session/state.h"

#include "base/error.h"

static struct sbx_principal **find_locked(struct sbx_sessions *sessions, const char *name) {
        struct sbx_principal **link = &sessions->principals;

        while (*link != NULL && strcmp((*link)->name, name) != 0)
                link = &(*link)->next;
        return link;
}

static struct sbx_principal *add_locked(struct sbx_sessions *sessions, const char *name) {
        size_t size = strlen(name) + 1;
        struct sbx_principal *principal = calloc(1, sizeof(*principal) + size);

        if (principal == NULL)
                return NULL;
        memcpy(principal->name, name, size);
        principal->next = sessions->principals;
        sessions->principals = principal;
        return principal;
}

int sbx_principal_enter_locked(struct sbx_sessions *sessions, const char *name, struct sbx_error *err) {
        struct sbx_principal *principal = *find_locked(sessions, name);

        if (principal == NULL)
                principal = add_locked(sessions, name);
        if (principal == NULL)
                return SBX_NOMEM(err, SBX_SESSION_ORIGIN);
        if (sessions->principal_max > 0 && principal->sessions >= sessions->principal_max)
                return sbx_error_set(err, -EBUSY, SBX_SESSION_ORIGIN,
                                     "Destroy one of them (list_sessions, destroy_session), wait until an idle one "
                                     "expires, or raise the setting max_sessions_per_principal.",
                                     "you have %u sessions, which is the maximum for one client", principal->sessions);
        principal->sessions++;
        return 0;
}

void sbx_principal_leave_locked(struct sbx_sessions *sessions, const char *name) {
        struct sbx_principal **link = find_locked(sessions, name), *principal = *link;

        if (principal == NULL || --principal->sessions > 0)
                return;
        *link = principal->next;
        free(principal);
}

void sbx_principals_free(struct sbx_sessions *sessions) {
        while (sessions->principals != NULL) {
                struct sbx_principal *principal = sessions->principals;

                sessions->principals = principal->next;
                free(principal);
        }
}
