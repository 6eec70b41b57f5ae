/* SPDX-License-Identifier: Apache-2.0 */
/* The option table, and what must hold between options. */
#include "options.h"

#include "util.h"

#define KIB INT64_C(1024)
#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define PACKAGES_MAX 256

#define OPTION(type_, name_, ...)                                                                                      \
        { .struct_size = sizeof(struct sbx_option), .type = (type_), .name = (name_), __VA_ARGS__ }

const struct sbx_option wasm_option_table[] = {
        OPTION(SBX_OPTION_SIZE, "memory", .default_value = "512m", .minimum = MIB, .maximum = 4 * GIB - 64 * MIB,
               .unit = "bytes",
               .help = "Memory of a guest beyond the image's, unless a profile says otherwise. Beyond it code gets a "
                       "MemoryError."),
        OPTION(SBX_OPTION_SIZE, "memory_max", .default_value = "3g", .minimum = MIB, .maximum = 4 * GIB - 64 * MIB,
               .unit = "bytes",
               .help = "The most memory that any profile may give to a guest; 32-bit addresses end below 4 GiB."),
        OPTION(SBX_OPTION_SIZE, "files", .default_value = "64m", .minimum = 64 * KIB, .maximum = 16 * GIB,
               .unit = "bytes", .help = "Size of a guest's file system, /work and /tmp together."),
        OPTION(SBX_OPTION_INT, "file_entries", .default_value = "10000", .minimum = 16, .maximum = 1000000,
               .unit = "files, directories and links", .help = "How many of them a guest may have."),
        OPTION(SBX_OPTION_INT, "open_files", .default_value = "256", .minimum = 16, .maximum = 65536,
               .unit = "descriptors", .help = "How many files a guest may have open at once."),
        OPTION(SBX_OPTION_SIZE, "snapshot_max", .default_value = "1g", .minimum = MIB, .maximum = 16 * GIB,
               .unit = "bytes", .help = "The largest snapshot of a guest that is made or read, packed."),
        OPTION(SBX_OPTION_DURATION, "cpu_time", .default_value = "0", .minimum = 0, .maximum = INT64_C(86400000) * 365,
               .help = "Processor time that a guest may use in its whole life, in seconds rounded up, before it is "
                       "killed; 0 is no limit."),
        OPTION(SBX_OPTION_INT, "sessions", .default_value = "10000", .minimum = 1, .maximum = 1000000, .unit = "guests",
               .help = "How many guests of one image may live at once."),
        OPTION(SBX_OPTION_ENUM, "namespaces", .default_value = "auto", .choices = "auto|required|off",
               .help = "Whether the jail around the engine has namespaces of its own beside seccomp and Landlock: where "
                       "this machine lets it (auto), always (required: else no guest starts), or never (off)."),
        OPTION(SBX_OPTION_INT, "user", .default_value = "65534", .minimum = 1, .maximum = 4294967294,
               .help = "The uid and gid of the jail, when the server runs as root."),
        OPTION(SBX_OPTION_STRINGS, "packages",
               .help = "Python packages of pure Python that are imported into the image, by `image build`: names "
                       "(\"attrs\", \"attrs==23.1.0\"), wheels or directories (\"./vendor/tool\")."),
        OPTION(SBX_OPTION_PATH, "cache_directory",
               .help = "Where images are kept, of this user alone. Unset: in the program's state directory."),
        {0},
};

static const char **copy_list(const struct sbx_host *host, const char *name, size_t *ret_count) {
        size_t count = host->option_count(host->self, name);
        const char **list = calloc(count + 1, sizeof(*list));

        for (size_t i = 0; list != NULL && i < count; i++)
                list[i] = host->option_item(host->self, name, i);
        *ret_count = count;
        return list;
}

static enum wasm_namespaces namespaces_of(const char *word) {
        if (word != NULL && strcmp(word, "off") == 0)
                return WASM_NAMESPACES_OFF;
        return word != NULL && strcmp(word, "auto") == 0 ? WASM_NAMESPACES_AUTO : WASM_NAMESPACES_REQUIRED;
}

static int check(const struct wasm_options *options, struct sbx_error *err) {
        if (options->memory_bytes > options->memory_max_bytes)
                return sbx_error_set(err, -EINVAL, WASM_ORIGIN, "raise memory_max, or lower memory",
                                     "memory is more than memory_max");
        if (options->package_count > PACKAGES_MAX)
                return sbx_error_set(err, -EINVAL, WASM_ORIGIN, "a directory can hold many packages",
                                     "packages: more than %d", PACKAGES_MAX);
        for (size_t i = 0; i < options->package_count; i++)
                if (options->packages[i] == NULL || options->packages[i][0] == '\0' || options->packages[i][0] == '-')
                        return sbx_error_set(err, -EINVAL, WASM_ORIGIN, "names, wheels or directories",
                                             "packages: \"%s\" is no package",
                                             options->packages[i] != NULL ? options->packages[i] : "");
        return 0;
}

int wasm_options_read(const struct sbx_host *host, struct wasm_options *ret, struct sbx_error *err) {
        struct sbx_host_state *self = host->self;
        struct wasm_options options = {
                .namespaces = namespaces_of(host->option_string(self, "namespaces")),
                .memory_bytes = (uint64_t)host->option_int(self, "memory"),
                .memory_max_bytes = (uint64_t)host->option_int(self, "memory_max"),
                .files_bytes = (uint64_t)host->option_int(self, "files"),
                .file_entries = (uint32_t)host->option_int(self, "file_entries"),
                .open_files = (uint32_t)host->option_int(self, "open_files"),
                .snapshot_max_bytes = (uint64_t)host->option_int(self, "snapshot_max"),
                .cpu_seconds = (uint32_t)((host->option_int(self, "cpu_time") + 999) / 1000),
                .sessions_max = (uint32_t)host->option_int(self, "sessions"),
                .user = (uid_t)host->option_int(self, "user"),
                .cache_directory = host->option_string(self, "cache_directory"),
        };
        int r;

        options.packages = copy_list(host, "packages", &options.package_count);
        r = options.packages != NULL ? check(&options, err)
                                     : sbx_error_set(err, -ENOMEM, WASM_ORIGIN, NULL, "out of memory");
        if (r < 0) {
                wasm_options_free(&options);
                return r;
        }
        *ret = options;
        return 0;
}

void wasm_options_free(struct wasm_options *options) {
        free(options->packages);
        options->packages = NULL;
}
