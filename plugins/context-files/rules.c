/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of the project are looked at. */
#include "rules.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>

#include "ignore.h"
#include "tree.h"

#define IGNORE_FILE_MAX ((size_t)1 << 20)
#define LEVELS_MAX (TREE_DEPTH_MAX + 64u) /* of the project, and above it up to the repository's root */

const char rules_default_exclude[] =
        ".env\n.env.*\n!.env.example\n!.env.sample\n!.env.template\n*.env\n"
        "*.pem\n*.key\n*.p8\n*.p12\n*.pfx\n*.jks\n*.keystore\n*.kdbx\n*.ppk\n*.asc\n*.gpg\n"
        "id_rsa*\nid_dsa*\nid_ecdsa*\nid_ed25519*\n"
        ".netrc\n_netrc\n.npmrc\n.pypirc\n.pgpass\n.my.cnf\n.htpasswd\n.git-credentials\n"
        ".dockercfg\n.docker/config.json\n.vault-token\n"
        "credentials\nsecret\nsecrets\n"
        "credentials.[jyti]*\nsecret.[jyti]*\nsecrets.[jyti]*\nclient_secret*.json\n"
        "service-account*.json\n*.tfstate\n*.tfstate.*\n*.tfvars\n"
        ".ssh/\n.gnupg/\n.aws/\n.azure/\n.kube/\n.snipara/\n"
        ".git\n.hg/\n.svn/\nnode_modules/\n__pycache__/\n.venv/\n";

struct rules {
        struct ignore_list *exclude, *info;     /* info: .git/info/exclude */
        struct ignore_list *levels[LEVELS_MAX]; /* from the repository's root down; NULL: a directory without one */
        size_t level_count;
        char *prefix; /* of the project in the repository: "" or "sub/dir/" */
};

/* ---- loading ---- */

/* As git does: not through a link, and not if it is not a file. */
static int load(int directory_fd, const char *name, const char *base, struct ignore_list **ret_list) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size;
        int r = tree_open_file(directory_fd, name, &fd, &st);

        if (r == 0)
                r = tree_read(fd, IGNORE_FILE_MAX, &text, &size);
        if (r == 0)
                r = ignore_parse((struct sbx_bytes){text, size}, base, ret_list);
        return r == -ENOMEM || r == -EFBIG ? r : 0;
}

static int load_exclude(struct rules *rules, const char *const *patterns, size_t count) {
        _cleanup_free_ char *text = NULL;
        size_t size = sizeof(rules_default_exclude), at;

        for (size_t i = 0; i < count; i++)
                size += strlen(patterns[i]) + 1;
        text = malloc(size);
        if (text == NULL)
                return -ENOMEM;
        at = sizeof(rules_default_exclude) - 1;
        memcpy(text, rules_default_exclude, at);
        for (size_t i = 0; i < count; i++) {
                size_t length = strlen(patterns[i]);

                for (size_t j = 0; j < length; j++)
                        text[at++] = (char)tolower((unsigned char)patterns[i][j]);
                text[at++] = '\n';
        }
        return ignore_parse((struct sbx_bytes){text, at}, "", &rules->exclude);
}

/* Bytes of `project` that name the repository's root: the nearest directory with a .git. 0: there is none. */
static size_t repository_size(const char *project) {
        for (size_t size = strlen(project); size > 0;) {
                _cleanup_free_ char *git = NULL;
                struct stat st;

                if (asprintf(&git, "%.*s/.git", (int)size, project) < 0) {
                        git = NULL;
                        return 0;
                }
                if (lstat(git, &st) == 0)
                        return size;
                while (size > 0 && project[size - 1] != '/')
                        size--;
                while (size > 0 && project[size - 1] == '/')
                        size--;
        }
        return 0;
}

/* The ignore files between the root and the project, which itself is entered by the walk. */
static int load_above(struct rules *rules, const char *project, size_t root_size) {
        const char *below = project + root_size;

        while (*below == '/' && rules->level_count < LEVELS_MAX - TREE_DEPTH_MAX - 1) {
                size_t size = (size_t)(below - project), base_start = root_size + (size > root_size);
                _cleanup_free_ char *directory = strndup(project, size);
                _cleanup_free_ char *base = strndup(project + base_start, size - base_start);
                _cleanup_close_ int fd = -1;
                int r;

                if (directory == NULL || base == NULL)
                        return -ENOMEM;
                fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
                r = fd >= 0 ? load(fd, ".gitignore", base, &rules->levels[rules->level_count]) : 0;
                if (r < 0)
                        return r;
                rules->level_count++;
                below++;
                below += strcspn(below, "/");
        }
        return 0;
}

static int load_info(struct rules *rules, const char *project, size_t root_size) {
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;

        if (asprintf(&path, "%.*s/.git/info", (int)root_size, project) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 ? load(fd, "exclude", "", &rules->info) : 0;
}

int rules_new(const char *project, const char *const *exclude, size_t exclude_count, struct rules **ret_rules) {
        struct rules *rules = calloc(1, sizeof(*rules));
        size_t root = repository_size(project), size = strlen(project);
        int r;

        if (rules == NULL)
                return -ENOMEM;
        r = load_exclude(rules, exclude, exclude_count);
        if (r == 0 && root > 0)
                r = load_info(rules, project, root);
        if (r == 0 && root > 0)
                r = load_above(rules, project, root);
        if (r == 0 && (root == 0 || root >= size)) {
                rules->prefix = strdup("");
                r = rules->prefix == NULL ? -ENOMEM : 0;
        } else if (r == 0 && asprintf(&rules->prefix, "%s/", project + root + 1) < 0) {
                rules->prefix = NULL;
                r = -ENOMEM;
        }
        if (r < 0) {
                rules_free(rules);
                return r;
        }
        *ret_rules = rules;
        return 0;
}

void rules_free(struct rules *rules) {
        if (rules == NULL)
                return;
        while (rules->level_count > 0)
                rules_leave(rules);
        ignore_free(rules->exclude);
        ignore_free(rules->info);
        free(rules->prefix);
        free(rules);
}

/* ---- asking ---- */

int rules_enter(struct rules *rules, int directory_fd, const char *path) {
        _cleanup_free_ char *base = NULL;
        struct ignore_list *list = NULL;
        size_t size;
        int r;

        if (rules->level_count == LEVELS_MAX)
                return -ELOOP;
        if (asprintf(&base, "%s%s", rules->prefix, path) < 0) {
                base = NULL;
                return -ENOMEM;
        }
        size = strlen(base);
        if (size > 0 && base[size - 1] == '/')
                base[size - 1] = '\0';
        r = load(directory_fd, ".gitignore", base, &list);
        if (r < 0)
                return r;
        rules->levels[rules->level_count++] = list;
        return 0;
}

void rules_leave(struct rules *rules) {
        ignore_free(rules->levels[--rules->level_count]);
        rules->levels[rules->level_count] = NULL;
}

bool rules_excluded(struct rules *rules, const char *path, bool directory) {
        char full[2 * TREE_PATH_MAX], folded[TREE_PATH_MAX];
        size_t prefix = strlen(rules->prefix), size = strlen(path);
        enum ignore_verdict verdict;

        if (size >= sizeof(folded) || prefix + size >= sizeof(full))
                return true;
        for (size_t i = 0; i <= size; i++)
                folded[i] = (char)(path[i] >= 'A' && path[i] <= 'Z' ? path[i] + 32 : path[i]);
        verdict = ignore_check(rules->exclude, folded, directory);
        if (verdict == IGNORE_YES)
                return true;
        memcpy(full, rules->prefix, prefix);
        memcpy(full + prefix, path, size + 1);
        verdict = IGNORE_UNDECIDED;
        for (size_t i = rules->level_count; i > 0 && verdict == IGNORE_UNDECIDED; i--)
                if (rules->levels[i - 1] != NULL)
                        verdict = ignore_check(rules->levels[i - 1], full, directory);
        if (verdict == IGNORE_UNDECIDED && rules->info != NULL)
                verdict = ignore_check(rules->info, full, directory);
        return verdict == IGNORE_YES;
}
