/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of registries from Docker's configuration (https://docs.docker.com/reference/cli/docker/login/), as the
 * header that engines take: X-Registry-Auth (https://docs.docker.com/engine/api/v1.41/#section/Authentication). */
#include <fcntl.h>
#include <sys/stat.h>

#include "image_internal.h"
#include "util.h"

#define CONFIG_MAX ((off_t)1 << 20)
#define HUB "docker.io"
#define HUB_ADDRESS "https://index.docker.io/v1/" /* the key under which Docker keeps those of its hub */

static int nomem(struct sbx_error *err) {
        return sbx_error_set(err, -ENOMEM, DOCKER_ORIGIN, NULL, "out of memory");
}

/* Where the configuration is; an explicit one must be there. "": nowhere. */
static int find_config(const struct docker *docker, char *path, size_t size, bool *ret_must) {
        const struct sbx_host *host = docker->host;
        const char *directory = host->environment(host->self, "DOCKER_CONFIG"),
                   *home = host->environment(host->self, "HOME");
        int n = 0;

        *ret_must = docker->options.registry_config != NULL;
        path[0] = '\0';
        if (*ret_must)
                n = snprintf(path, size, "%s", docker->options.registry_config);
        else if (directory != NULL)
                n = snprintf(path, size, "%s/config.json", directory);
        else if (home != NULL)
                n = snprintf(path, size, "%s/.docker/config.json", home);
        return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int read_file(const char *path, char **ret_text, size_t *ret_size) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size = 0;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        if (st.st_size > CONFIG_MAX)
                return -EFBIG;
        text = calloc(1, (size_t)st.st_size + 1);
        if (text == NULL)
                return -ENOMEM;
        while (size < (size_t)st.st_size) {
                ssize_t n = read(fd, text + size, (size_t)st.st_size - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        break;
                size += (size_t)n;
        }
        *ret_text = steal_pointer(text);
        *ret_size = size;
        return 0;
}

/* NULL: there is none. */
static int load_config(const struct docker *docker, json_t **ret_config, struct sbx_error *err) {
        char path[4096], *text = NULL;
        json_t *config;
        size_t size = 0;
        bool must;
        int r = find_config(docker, path, sizeof(path), &must);

        *ret_config = NULL;
        if (r == 0 && path[0] == '\0')
                return 0;
        if (r == 0)
                r = read_file(path, &text, &size);
        if (r == -ENOENT && !must)
                return 0;
        if (r < 0)
                return sbx_error_set(err, r, DOCKER_ORIGIN, "Mend it, or set registry_config to another.",
                                     "can't read the registries' credentials in %s: %s", path, strerror(-r));
        config = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        explicit_bzero(text, size);
        free(text);
        if (!json_is_object(config)) {
                json_decref(config);
                return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Mend it, or set registry_config to another.",
                                     "%s is not JSON as `docker login` writes it", path);
        }
        *ret_config = config;
        return 0;
}

/* "https://registry.example.org/v2/" is "registry.example.org"; a key with a path of its own is another's. */
static bool key_is(const char *key, const char *registry) {
        size_t length;

        if (strncmp(key, "https://", 8) == 0)
                key += 8;
        else if (strncmp(key, "http://", 7) == 0)
                key += 7;
        length = strcspn(key, "/");
        if (strcmp(key + length, "") != 0 && strcmp(key + length, "/") != 0 && strcmp(key + length, "/v1/") != 0 &&
            strcmp(key + length, "/v2/") != 0 && strcmp(key + length, "/v1") != 0 && strcmp(key + length, "/v2") != 0)
                return false;
        if (strlen(registry) == length && strncmp(key, registry, length) == 0)
                return true;
        return strcmp(registry, HUB) == 0 && ((length == 15 && strncmp(key, "index.docker.io", 15) == 0) ||
                                              (length == 20 && strncmp(key, "registry-1.docker.io", 20) == 0));
}

static const json_t *find_key(const json_t *map, const char *registry) {
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)map, key, value) {
                if (key_is(key, registry))
                        return value;
        }
        return NULL;
}

static const char *text_of(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));

        return text != NULL ? text : "";
}

/* ---- the header ---- */

static int encode(json_t *credentials, char **ret_header, struct sbx_error *err) {
        _cleanup_json_ json_t *owned = credentials;
        _cleanup_secret_ char *text = NULL;

        text = owned != NULL ? json_dumps(owned, JSON_COMPACT) : NULL;
        *ret_header = text != NULL ? base64_url_encode(text, strlen(text)) : NULL;
        return *ret_header != NULL ? 0 : nomem(err);
}

static int encode_password(const char *user, const char *password, const char *server, char **ret_header,
                           struct sbx_error *err) {
        return encode(json_pack("{s:s, s:s, s:s}", "username", user, "password", password, "serveraddress", server),
                      ret_header, err);
}

static int encode_token(const char *kind, const char *token, const char *server, char **ret_header,
                        struct sbx_error *err) {
        return encode(json_pack("{s:s, s:s}", kind, token, "serveraddress", server), ret_header, err);
}

static int bad_entry(const char *registry, struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, DOCKER_ORIGIN, "Log in again: docker login REGISTRY",
                             "the credentials for %.200s in Docker's configuration are damaged", registry);
}

/* "auth" is the base64 of "user:password". */
static int from_entry(const json_t *entry, const char *registry, const char *server, char **ret_header,
                      struct sbx_error *err) {
        _cleanup_secret_ char *pair = NULL;
        const char *auth = text_of(entry, "auth"), *user = text_of(entry, "username");
        char *colon;
        size_t size;
        int r;

        if (*text_of(entry, "identitytoken") != '\0')
                return encode_token("identitytoken", text_of(entry, "identitytoken"), server, ret_header, err);
        if (*text_of(entry, "registrytoken") != '\0')
                return encode_token("registrytoken", text_of(entry, "registrytoken"), server, ret_header, err);
        if (*auth == '\0')
                return *user == '\0' ? 0 : encode_password(user, text_of(entry, "password"), server, ret_header, err);
        r = base64_decode(auth, &pair, &size);
        if (r == -ENOMEM)
                return nomem(err);
        colon = r == 0 ? strchr(pair, ':') : NULL;
        if (colon == NULL || strlen(pair) != size)
                return bad_entry(registry, err);
        *colon = '\0';
        r = encode_password(pair, colon + 1, server, ret_header, err);
        *colon = ':'; /* so that all of it is wiped */
        return r;
}

static int from_helper(const char *helper, const char *registry, const char *server, char **ret_header,
                       struct sbx_error *err) {
        _cleanup_json_ json_t *answer = NULL;
        char *text = NULL;
        const char *user;
        size_t size = 0;
        int r = credential_helper_get(helper, server, &text, &size, err);

        if (r < 0 || text == NULL)
                return r;
        answer = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        explicit_bzero(text, size);
        free(text);
        user = text_of(answer, "Username");
        if (!json_is_object(answer) || *user == '\0')
                return bad_entry(registry, err);
        if (strcmp(user, "<token>") == 0)
                return encode_token("identitytoken", text_of(answer, "Secret"), server, ret_header, err);
        return encode_password(user, text_of(answer, "Secret"), server, ret_header, err);
}

int credentials_for(const struct docker *docker, const char *image, char **ret_header, struct sbx_error *err) {
        struct image_reference reference;
        _cleanup_json_ json_t *config = NULL;
        _cleanup_secret_ char *header = NULL;
        const char *server, *helper;
        const json_t *entry;
        int r = image_reference_parse(image, &reference, err);

        if (r == 0)
                r = load_config(docker, &config, err);
        if (r < 0)
                return r;
        server = strcmp(reference.registry, HUB) == 0 ? HUB_ADDRESS : reference.registry;
        helper = json_string_value(find_key(json_object_get(config, "credHelpers"), reference.registry));
        if (helper == NULL && *text_of(config, "credsStore") != '\0')
                helper = text_of(config, "credsStore");
        entry = find_key(json_object_get(config, "auths"), reference.registry);
        if (helper != NULL)
                r = from_helper(helper, reference.registry, server, &header, err);
        if (r == 0 && header == NULL && entry != NULL)
                r = from_entry(entry, reference.registry, server, &header, err);
        if (r == 0 && header == NULL && (header = strdup("")) == NULL)
                r = nomem(err);
        if (r == 0)
                *ret_header = steal_pointer(header);
        return r;
}
