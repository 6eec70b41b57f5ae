/* SPDX-License-Identifier: Apache-2.0 */
/* Price files: reading, checking, and finding the entry of a model. */
#include "prices.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

#define FILE_MAX ((size_t)4 << 20)

static int read_whole(const char *path, struct llm_text *text) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat status;
        char piece[16384];
        ssize_t n = 0;
        int r = 0;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
                r = -EINVAL;
        while (r == 0 && (n = read(fd, piece, sizeof(piece))) > 0)
                r = llm_text_append(text, piece, (size_t)n);
        if (n < 0)
                r = -errno;
        close(fd);
        return r;
}

static bool is_price(const json_t *value) {
        return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) < 1e6;
}

static int check_entry(const char *path, const char *name, const json_t *entry, struct sbx_error *err) {
        const json_t *cached = json_object_get(entry, "cached_input_per_million");

        if (is_price(json_object_get(entry, "input_per_million")) &&
            is_price(json_object_get(entry, "output_per_million")) && (cached == NULL || is_price(cached)))
                return 0;
        return sbx_error_set(err, -EINVAL, LLM_ORIGIN,
                             "Give input_per_million and output_per_million as US dollars for a million tokens.",
                             "%s: the prices of \"%.100s\" are not two numbers", path, name);
}

static int read_file(const char *path, json_t **ret_models, struct sbx_error *err) {
        _cleanup_text_ struct llm_text text = LLM_TEXT(FILE_MAX);
        _cleanup_json_ json_t *root = NULL;
        json_t *models, *entry;
        const char *name;
        char reason[128];
        int r = read_whole(path, &text);

        if (r == -ENOMEM)
                return llm_nomem(err);
        if (r < 0)
                return sbx_error_set(err, r, LLM_ORIGIN, "Check the option prices, or install the package again.",
                                     "%s: the prices can't be read: %s", path, strerror_r(-r, reason, sizeof(reason)));
        r = llm_json_parse(llm_text_bytes(&text), &root, NULL);
        if (r == -ENOMEM)
                return llm_nomem(err);
        models = json_object_get(root, "models");
        if (r < 0 || !json_is_object(models))
                return sbx_error_set(err, -EINVAL, LLM_ORIGIN,
                                     "It looks like {\"as_of\": \"2026-01-31\", \"models\": {\"openai/gpt-4o\": "
                                     "{\"input_per_million\": 2.5, \"output_per_million\": 10}}}.",
                                     "%s: not a JSON object with \"models\"", path);
        json_object_foreach (models, name, entry) {
                r = check_entry(path, name, entry, err);
                if (r < 0)
                        return r;
        }
        *ret_models = json_incref(models);
        return 0;
}

int llm_prices_read(const char *own, const char *installed, struct llm_prices *ret_prices, struct sbx_error *err) {
        struct llm_prices prices = {{NULL, NULL}};
        int r = own != NULL ? read_file(own, &prices.files[0], err) : 0;

        if (r == 0)
                r = read_file(installed, &prices.files[1], err);
        if (r < 0) {
                llm_prices_free(&prices);
                return r;
        }
        *ret_prices = prices;
        return 0;
}

void llm_prices_free(struct llm_prices *prices) {
        for (size_t i = 0; i < 2; i++)
                json_decref(prices->files[i]);
        *prices = (struct llm_prices){{NULL, NULL}};
}

/* "-2024-08-06", "-20250514", "-0613", "-001", "-latest", "@20250514", and several of them: the same model, and the
 * same price. "-32k", "-turbo", "-4" are other models. */
static bool is_version(const char *text) {
        while (*text != '\0') {
                size_t digits;

                if (*text != '-' && *text != '@')
                        return false;
                text++;
                if (strncmp(text, "latest", 6) == 0) {
                        text += 6;
                        continue;
                }
                for (digits = 0; isdigit((unsigned char)text[digits]);)
                        digits++;
                if (digits == 4 && text[4] == '-' && isdigit((unsigned char)text[5]) &&
                    isdigit((unsigned char)text[6]) && text[7] == '-' && isdigit((unsigned char)text[8]) &&
                    isdigit((unsigned char)text[9]))
                        digits = 10;
                if (digits < 3)
                        return false;
                text += digits;
        }
        return true;
}

static const json_t *find_in(json_t *models, const char *name) {
        const json_t *found = json_object_get(models, name);
        size_t longest = 0;
        const char *key;
        json_t *entry;

        if (found != NULL)
                return found;
        json_object_foreach (models, key, entry) {
                size_t length = strlen(key);

                if (length > longest && strncmp(key, name, length) == 0 && is_version(name + length)) {
                        found = entry;
                        longest = length;
                }
        }
        return found;
}

static const json_t *find_entry(const struct llm_prices *prices, const char *name) {
        for (size_t i = 0; i < 2; i++) {
                const json_t *entry = prices->files[i] != NULL ? find_in(prices->files[i], name) : NULL;

                if (entry != NULL)
                        return entry;
        }
        return NULL;
}

/* "provider/name", whatever other name the provider goes by, or none, in what was asked for. */
static const json_t *find_with_provider(const struct llm_prices *prices, const char *provider, const char *name) {
        char full[320];
        int size = snprintf(full, sizeof(full), "%s/%s", provider, name);

        return size > 0 && (size_t)size < sizeof(full) ? find_entry(prices, full) : NULL;
}

static const json_t *find_model(const struct llm_prices *prices, const char *model, const char *provider,
                                const char *answered) {
        const char *slash = strchr(model, '/'), *name = slash != NULL ? slash + 1 : model;
        const json_t *entry = find_entry(prices, model);

        if (entry == NULL)
                entry = find_with_provider(prices, provider, name);
        /* OpenRouter and LiteLLM's proxy have models of others: openrouter/openai/gpt-4o. */
        if (entry == NULL && (strcmp(provider, "openrouter") == 0 || strcmp(provider, "litellm_proxy") == 0))
                entry = find_entry(prices, name);
        /* A deployment has any name; the answer says which model it is, and the price is OpenAI's. */
        if (entry == NULL && strcmp(provider, "azure") == 0 && answered != NULL)
                entry = find_with_provider(prices, "openai", answered);
        return entry;
}

double llm_prices_cost(const struct llm_prices *prices, const char *model, const char *provider, const char *answered,
                       const struct llm_usage *usage) {
        const json_t *entry = find_model(prices, model, provider, answered);
        const json_t *cached = json_object_get(entry, "cached_input_per_million");
        double input, output, from_cache;

        if (entry == NULL)
                return -1;
        input = json_number_value(json_object_get(entry, "input_per_million"));
        output = json_number_value(json_object_get(entry, "output_per_million"));
        from_cache = cached != NULL ? json_number_value(cached) : input;
        return ((double)(usage->prompt - usage->cached) * input + (double)usage->cached * from_cache +
                (double)usage->completion * output) /
               1e6;
}
