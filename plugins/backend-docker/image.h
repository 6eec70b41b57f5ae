/* SPDX-License-Identifier: Apache-2.0 */
/* Images: those that the configuration names, pulled when they are missing, and those prepared from them for the
 * project (workspace_setup). Pulls and builds go on in a thread of their own, so that a caller who gives up does not
 * stop them: the next one waits for the same. */
#ifndef DOCKER_IMAGE_H
#define DOCKER_IMAGE_H

#include "docker.h"

#define IMAGE_ID_MAX 80 /* "sha256:" and 64 digits */

struct images;
int images_new(struct docker *docker, struct images **ret_images, struct sbx_error *err);
void images_free(struct images *images); /* ends what is under way */

/* The image that containers of the runtime are made of, ready to run. Tells the call's progress. -ENOENT (it is
 * nowhere; or missing and not to be pulled), -EHOSTUNREACH (no registry: what to type to load an image by hand),
 * -EACCES (credentials), -EIO (the build failed: the last lines of its log), -ETIMEDOUT (it goes on; ask again). */
int image_get(struct images *images, const struct docker_runtime *runtime, const struct sbx_call *call,
              char ret_id[IMAGE_ID_MAX], struct sbx_error *err);

/* What image_get found is known from then on. To be called when the engine has no such image after all. */
void image_forget(struct images *images, const struct docker_runtime *runtime);

/* Ops of the plugin. */
int docker_prepare(void *instance, const struct sbx_call *call, struct sbx_error *err);
int docker_images(void *instance, const struct sbx_call *call, struct sbx_output *ret_json, struct sbx_error *err);
int docker_images_prune(void *instance, const struct sbx_call *call, struct sbx_output *ret_json,
                        struct sbx_error *err);

/* credentials.c: the value of X-Registry-Auth for an image's registry, from Docker's config.json (auths, credsStore,
 * credHelpers: docker-credential-NAME is run, without a shell). "": none known. Wiped by the caller. */
int credentials_for(const struct docker *docker, const char *image, char **ret_header, struct sbx_error *err);

/* prepare.c: the name of a prepared image, "snipara-sandbox-workspace:<hash>" over the base image's id, setup, command,
 * extras, and the files that the installation reads; and building it. */
int prepared_name(struct docker *docker, const char *base_id, char *ret_name, size_t size, struct sbx_error *err);
int prepared_build(struct docker *docker, const char *base_id, const char *name, const struct sbx_call *call,
                   struct sbx_error *err);

#endif
