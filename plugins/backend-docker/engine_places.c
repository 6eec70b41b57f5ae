/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine may be: what the configuration or the environment names, else the sockets that engines make. */
#include <sys/stat.h>
#include <sys/un.h>

#include "engine_internal.h"

#define TCP_PORT "2375"
#define TCP_PORT_TLS "2376"

static int not_an_address(const char *found_by, const char *address, const char *why, struct sbx_error *err) {
        return sbx_error_set(err, -EINVAL, ENGINE_ORIGIN,
                             "An address is unix:///path/of/the.sock or tcp://host:port; \"auto\" looks for sockets.",
                             "%s: \"%.*s\" %s", found_by, ENGINE_PLACE_MAX, address, why);
}

static int read_unix(const char *found_by, const char *address, struct engine_place *ret_place, struct sbx_error *err) {
        const char *path = address + strlen("unix://");

        if (path[0] != '/')
                return not_an_address(found_by, address, "has no absolute path", err);
        if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
                return not_an_address(found_by, address, "has a path longer than that of a socket can be", err);
        snprintf(ret_place->address, sizeof(ret_place->address), "unix://%s", path);
        return 0;
}

static bool is_host(const char *host, size_t size) {
        bool brackets = size > 2 && host[0] == '[' && host[size - 1] == ']';

        if (size == 0 || size > 200)
                return false;
        for (size_t i = brackets ? 1 : 0; i < size - (brackets ? 1 : 0); i++)
                if (!(host[i] >= 'a' && host[i] <= 'z') && !(host[i] >= 'A' && host[i] <= 'Z') &&
                    !(host[i] >= '0' && host[i] <= '9') && host[i] != '.' &&
                    (brackets ? host[i] != ':' : host[i] != '-' && host[i] != '_'))
                        return false;
        return true;
}

static bool is_port(const char *port, size_t size) {
        unsigned number = 0;

        for (size_t i = 0; i < size; i++) {
                if (port[i] < '0' || port[i] > '9' || i > 4)
                        return false;
                number = number * 10 + (unsigned)(port[i] - '0');
        }
        return number > 0 && number <= 65535;
}

static int read_tcp(const char *found_by, const char *address, bool tls, struct engine_place *ret_place,
                    struct sbx_error *err) {
        const char *host = address + strlen("tcp://"), *port = tls ? TCP_PORT_TLS : TCP_PORT;
        size_t size = strcspn(host, "/"), host_size = size, port_size = strlen(port);
        const char *colon = memrchr(host, ':', size);

        if (colon != NULL && memchr(colon, ']', size - (size_t)(colon - host)) == NULL) {
                host_size = (size_t)(colon - host);
                port = colon + 1;
                port_size = size - host_size - 1;
        }
        if (host[size] != '\0' && strcmp(host + size, "/") != 0)
                return not_an_address(found_by, address, "has a path, which this program does not use", err);
        if (!is_host(host, host_size) || !is_port(port, port_size))
                return not_an_address(found_by, address, "has no host and port", err);
        snprintf(ret_place->address, sizeof(ret_place->address), "tcp://%.*s:%.*s", (int)host_size, host,
                 (int)port_size, port);
        ret_place->tls = tls;
        return 0;
}

static int read_address(const char *found_by, const char *address, bool tls, struct engine_place *ret_place,
                        struct sbx_error *err) {
        struct engine_place place = {.chosen = true};
        int r;

        snprintf(place.found_by, sizeof(place.found_by), "%s", found_by);
        if (strlen(address) >= sizeof(place.address) - sizeof(TCP_PORT_TLS))
                return not_an_address(found_by, address, "is too long", err);
        if (strncmp(address, "unix://", 7) == 0)
                r = read_unix(found_by, address, &place, err);
        else if (strncmp(address, "tcp://", 6) == 0)
                r = read_tcp(found_by, address, tls, &place, err);
        else if (strncmp(address, "ssh://", 6) == 0)
                return sbx_error_set(
                        err, -ENOTSUP, ENGINE_ORIGIN,
                        "Forward the socket: ssh -nNT -L $XDG_RUNTIME_DIR/engine.sock:/var/run/docker.sock "
                        "HOST, then set engine = \"unix://...\" to it.",
                        "%s: ssh addresses are not supported", found_by);
        else
                return sbx_error_set(err, -ENOTSUP, ENGINE_ORIGIN,
                                     "An address is unix:///path/of/the.sock or tcp://host:port; \"auto\" looks for "
                                     "sockets.",
                                     "%s: \"%.*s\" is not an address of a kind that is supported", found_by,
                                     ENGINE_PLACE_MAX, address);
        if (r == 0)
                *ret_place = place;
        return r;
}

SBX_PRINTF(5, 6)
static void add(struct engine_place *places, size_t max, size_t *count, const char *found_by, const char *format, ...) {
        struct engine_place place = {0};
        va_list args;
        int n;

        va_start(args, format);
        n = vsnprintf(place.address, sizeof(place.address), format, args);
        va_end(args);
        if (n < 0 || (size_t)n >= strlen("unix://") + sizeof(((struct sockaddr_un *)NULL)->sun_path) || *count == max)
                return; /* no socket can be there */
        snprintf(place.found_by, sizeof(place.found_by), "%s", found_by);
        for (size_t i = 0; i < *count; i++)
                if (strcmp(places[i].address, place.address) == 0)
                        return;
        places[(*count)++] = place;
}

static int look(const struct sbx_host *host, struct engine_place *ret_places, size_t max) {
        const char *runtime = host->environment(host->self, "XDG_RUNTIME_DIR");
        const char *home = host->environment(host->self, "HOME");
        char standard[64];
        size_t count = 0;

        if (runtime == NULL || runtime[0] != '/') {
                snprintf(standard, sizeof(standard), "/run/user/%u", (unsigned)geteuid());
                runtime = standard;
        }
        add(ret_places, max, &count, "Docker", "unix:///var/run/docker.sock");
        add(ret_places, max, &count, "rootless Docker", "unix://%s/docker.sock", runtime);
        if (home != NULL && home[0] == '/') {
                add(ret_places, max, &count, "rootless Docker, in the home directory",
                    "unix://%s/.docker/run/docker.sock", home);
                add(ret_places, max, &count, "Docker Desktop", "unix://%s/.docker/desktop/docker.sock", home);
        }
        add(ret_places, max, &count, "Podman", "unix:///run/podman/podman.sock");
        add(ret_places, max, &count, "rootless Podman", "unix://%s/podman/podman.sock", runtime);
        return (int)count;
}

int engine_places(const struct sbx_host *host, const struct docker_options *options, struct engine_place *ret_places,
                  size_t max, struct sbx_error *err) {
        static const char *const variables[] = {"DOCKER_HOST", "CONTAINER_HOST"};
        bool tls = engine_tls_wanted(host, options);
        int r;

        if (max == 0)
                return 0;
        if (options->engine != NULL && strcmp(options->engine, "auto") != 0) {
                r = read_address("option engine", options->engine, tls, ret_places, err);
                return r < 0 ? r : 1;
        }
        for (size_t i = 0; options->engine == NULL && i < sizeof(variables) / sizeof(variables[0]); i++) {
                const char *address = host->environment(host->self, variables[i]);

                if (address != NULL) {
                        r = read_address(variables[i], address, tls, ret_places, err);
                        return r < 0 ? r : 1;
                }
        }
        return look(host, ret_places, max);
}

int engine_place_check(const struct engine_place *place, struct sbx_error *err) {
        const char *path = place->address + strlen("unix://");
        struct sbx_error cause = {0};
        struct stat st;

        if (strncmp(place->address, "unix://", 7) != 0)
                return 0;
        if (stat(path, &st) < 0) {
                int code = errno == EACCES ? -EACCES : -ENOENT;

                sbx_error_set(&cause, code, ENGINE_ORIGIN, NULL,
                              code == -EACCES ? "no permission to reach %s" : "there is no %s", place->address);
                return engine_unreachable(place, code, &cause, err);
        }
        if (!S_ISSOCK(st.st_mode))
                return sbx_error_set(err, -ENOTSOCK, ENGINE_ORIGIN, "Set the option engine to the socket of an engine.",
                                     "%s (%s) is no socket", place->address, place->found_by);
        if (!place->chosen && st.st_uid != 0 && st.st_uid != geteuid())
                return sbx_error_set(err, -EPERM, ENGINE_ORIGIN,
                                     "If it is to be trusted, choose it: set the option engine, or DOCKER_HOST.",
                                     "%s (%s) belongs to another user (uid %u)", place->address, place->found_by,
                                     (unsigned)st.st_uid);
        return 0;
}
