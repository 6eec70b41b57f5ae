/* SPDX-License-Identifier: Apache-2.0 */
/* `image build --with NAME`: packages on top of those that the configuration names, for this command. */
#include "cli/image_packages.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "cli/output.h"
#include "cli/runtime.h"

#define LIST_MAX ((size_t)64 << 10)

/* NULL: the instance's images take no packages. */
static const struct sbx_value *packages_of(const struct sbx_instance *instance) {
        return instance->settings != NULL ? sbx_settings_get(instance->settings, "packages") : NULL;
}

/* The backend that is asked for; NULL: the first whose images take packages. */
static int find(const struct sbx_cli_parts *parts, const char *environment, const struct sbx_instance **ret_instance,
                struct sbx_error *err) {
        for (size_t i = 0; i < sbx_config_plugin_count(parts->config); i++) {
                const struct sbx_plugin_entry *entry = sbx_config_plugin(parts->config, i);
                const struct sbx_instance *instance;
                bool named = environment != NULL && strcmp(entry->name, environment) == 0;
                int r;

                if ((environment != NULL && !named) || !entry->enabled)
                        continue;
                r = sbx_registry_open(parts->registry, entry->name, &instance, named ? err : NULL);
                if (r < 0 && named)
                        return r;
                if (r == 0 && packages_of(instance) != NULL) {
                        *ret_instance = instance;
                        return 0;
                }
                if (named)
                        return sbx_error_set(err, -EINVAL, "cli",
                                             "images of containers are prepared by the settings workspace_setup and "
                                             "workspace_install_extras",
                                             "the images of %s take no packages", entry->name);
        }
        return sbx_error_set(err, -ENOENT, "cli", "'snipara-sandbox doctor' tells which backends work, and why not",
                             "no backend of the configuration has images that take packages");
}

static int join(const struct sbx_value *configured, const struct sbx_cli_arguments *with, struct sbx_buffer *out,
                struct sbx_error *err) {
        int r = 0;

        for (char *const *at = configured->set ? configured->strings : NULL; at != NULL && *at != NULL && r == 0; at++)
                r = sbx_buffer_printf(out, "%s%s", out->size > 0 ? "," : "", *at);
        for (size_t i = 0; i < with->count && r == 0; i++) {
                if (with->items[i].option == NULL)
                        continue;
                if (with->items[i].text[0] == '\0' || strchr(with->items[i].text, ',') != NULL)
                        return sbx_error_set(err, -EINVAL, "cli", "give --with once for each package",
                                             "--with: \"%s\" is no package", with->items[i].text);
                r = sbx_buffer_printf(out, "%s%s", out->size > 0 ? "," : "", with->items[i].text);
        }
        return r < 0 ? sbx_error_set(err, r, "cli", NULL, "--with: too many packages") : 0;
}

int sbx_cli_image_packages(struct sbx_cli *cli, struct sbx_cli_parts *parts, const struct sbx_cli_arguments *with,
                           const char *environment, char **ret_environment, struct sbx_error *err) {
        _cleanup_buffer_ struct sbx_buffer list = SBX_BUFFER(LIST_MAX);
        _cleanup_free_ char *name = NULL;
        const struct sbx_instance *instance = NULL;
        int r = find(parts, environment, &instance, err);

        if (r == 0)
                r = join(packages_of(instance), with, &list, err);
        if (r < 0)
                return r;
        name = strdup(instance->name);
        if (name == NULL || sbx_cli_setting_add(cli, "%s.packages=%.*s", name, (int)list.size, list.data) < 0)
                return sbx_error_set(err, -ENOMEM, "cli", NULL, "out of memory");
        sbx_cli_parts_free(parts);
        *parts = (struct sbx_cli_parts){0};
        r = sbx_cli_parts_open(cli, parts, err);
        if (r >= 0)
                *ret_environment = steal_pointer(name);
        return r;
}

void sbx_cli_image_packages_used(const struct sbx_cli *cli, const struct sbx_instance *instance) {
        static const struct sbx_cli_arguments none = {0};
        _cleanup_buffer_ struct sbx_buffer list = SBX_BUFFER(LIST_MAX);

        if (join(packages_of(instance), &none, &list, NULL) == 0)
                (void)sbx_cli_print_styled(
                        &cli->err, SBX_CLI_YELLOW,
                        "note: sessions begin with it where `packages` of the entry \"%s\" names the "
                        "same; for one command: --set %s.packages=%.*s\n",
                        instance->name, instance->name, (int)list.size, list.data);
}
