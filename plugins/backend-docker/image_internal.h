/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that bring and prepare images. */
#ifndef DOCKER_IMAGE_INTERNAL_H
#define DOCKER_IMAGE_INTERNAL_H

#include "image.h"

#define IMAGE_REFERENCE_MAX 400
#define IMAGE_STREAM_MAX ((size_t)256 << 20) /* of all that an engine tells while it pulls or builds */
#define PREPARED_NAME_MAX 64
#define PREPARED_REPOSITORY "snipara-sandbox-workspace"
#define PREPARED_LABEL "org.snipara.sandbox.prepared" /* the hash that is its tag */
#define PREPARED_LABEL_PROJECT "org.snipara.sandbox.project"
#define PREPARED_LABEL_BUILD "org.snipara.sandbox.build" /* one build's own, random */

/* ---- reference.c ---- */

/* "registry.example.org:5000/team/image:tag" taken apart; https://docs.docker.com/reference/cli/docker/image/tag/ */
struct image_reference {
        char repository[IMAGE_REFERENCE_MAX]; /* with the registry, if it names one */
        char tag[IMAGE_REFERENCE_MAX];        /* or digest; "latest" if there is none */
        char registry[IMAGE_REFERENCE_MAX];   /* "docker.io" if it names none */
        bool id;                              /* an image's id: of this engine alone, nothing to pull */
};
/* -EINVAL. */
int image_reference_parse(const char *image, struct image_reference *ret_reference, struct sbx_error *err);

/* ---- inspect.c ---- */

/* What an engine says went wrong, its first line, for an error: nothing that a terminal would obey, no half of a
 * character. */
void image_take_words(char *text, size_t size, const char *words);

struct image_facts {
        char id[IMAGE_ID_MAX];
        char created[32];  /* "2026-11-21T10:10:28Z"; "": unknown */
        char prepared[80]; /* value of PREPARED_LABEL; "": none */
        int64_t size;
};
/* -ENOENT: the engine has no such image. */
int image_inspect(struct docker *docker, const char *name, const struct sbx_call *call, struct image_facts *ret_facts,
                  struct sbx_error *err);
/* "sha256:" and 64 digits, or the digits alone. */
bool image_id_ok(const char *id);

/* ---- pull.c ---- */

/* Pulls the image by the engine; tells the call's progress. Errors as image_get. */
int image_pull(struct docker *docker, const char *image, const struct sbx_call *call, struct sbx_error *err);

/* ---- what the configuration asks for ---- */

/* image.c: whether containers of the runtime are made of an image that is prepared for the project. */
bool image_is_prepared(const struct docker *docker, const struct docker_runtime *runtime);

/* As image_get, but asks the engine in any case, and looks at the project anew. */
int image_refresh(struct images *images, const struct docker_runtime *runtime, const struct sbx_call *call,
                  struct sbx_error *err);

/* prepare.c: a hash of this machine, user and project: whose prepared images are whose. */
#define PROJECT_HASH_MAX 65
int prepared_project(const struct docker *docker, char ret_hash[PROJECT_HASH_MAX], struct sbx_error *err);
/* The directory that is prepared for; -EINVAL if there is none. */
int prepared_directory(const struct docker *docker, const char **ret_path, struct sbx_error *err);

/* ---- base64.c ---- */

/* RFC 4648: the URL alphabet with padding (X-Registry-Auth). NULL: out of memory. */
char *base64_url_encode(const void *data, size_t size);
/* The ordinary alphabet. -EINVAL, -ENOMEM. `*ret_data` has a NUL behind it. */
int base64_decode(const char *text, char **ret_data, size_t *ret_size);

/* ---- credential_helper.c ---- */

/* Asks docker-credential-NAME for a server; `*ret_json` is its answer, NULL if it knows none. Wiped by the caller. */
int credential_helper_get(const char *name, const char *server, char **ret_json, size_t *ret_size,
                          struct sbx_error *err);

/* Text that may be secret, wiped and freed at the end of the scope. */
static inline void docker_cleanup_secret(char **text) {
        if (*text != NULL)
                explicit_bzero(*text, strlen(*text));
        free(*text);
}
#define _cleanup_secret_ __attribute__((cleanup(docker_cleanup_secret)))

#endif
