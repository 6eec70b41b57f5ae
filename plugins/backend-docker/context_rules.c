/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a project go into a build context, and which of them say what is to be installed. */
#include <fnmatch.h>

#include "context.h"

static bool matches(const char *name, const char *const *patterns) {
        for (; *patterns != NULL; patterns++)
                if (fnmatch(*patterns, name, 0) == 0)
                        return true;
        return false;
}

bool context_leaves_out(const char *name, bool directory) {
        static const char *const directories[] = {
                ".git",
                ".hg",
                ".svn",
                ".bzr",
                ".jj",
                "CVS",
                ".venv",
                "venv",
                ".env",
                ".direnv",
                ".envrc.d",
                "virtualenv",
                "__pycache__",
                ".cache",
                ".mypy_cache",
                ".tox",
                ".nox",
                ".pytest_cache",
                ".ruff_cache",
                ".hypothesis",
                ".pytype",
                ".eggs",
                ".ipynb_checkpoints",
                "node_modules",
                ".npm",
                ".yarn",
                ".pnpm-store",
                ".ssh",
                ".aws",
                ".azure",
                ".gnupg",
                ".docker",
                ".kube",
                ".gcloud",
                ".terraform",
                ".vault",
                ".cursor",
                ".idea",
                ".vscode",
                NULL,
        };
        static const char *const files[] = {
                ".env",
                ".env.*",
                "*.env",
                ".envrc",
                ".netrc",
                "_netrc",
                ".pypirc",
                ".npmrc",
                ".yarnrc*",
                ".pgpass",
                ".git-credentials",
                ".git",
                ".htpasswd",
                ".dockercfg",
                "id_rsa*",
                "id_dsa*",
                "id_ecdsa*",
                "id_ed25519*",
                "*.p12",
                "*.pfx",
                "*.jks",
                "*.keystore",
                "*.kdbx",
                "*.ppk",
                "*.pyc",
                "*.pyo",
                ".DS_Store",
                ".coverage",
                "*.swp",
                "credentials.json",
                "secrets.json",
                "secrets.y*ml",
                "client_secret*.json",
                "*.tfstate",
                "*.tfvars",
                ".mcp.json",
                "snipara-sandbox.cfg",
                NULL,
        };

        return matches(name, directory ? directories : files);
}

bool context_is_key(const char *name, struct sbx_bytes beginning) {
        static const char *const kinds[] = {"*.pem", "*.key", "*.asc", "*.gpg", NULL};
        static const char mark[] = "PRIVATE KEY";

        return matches(name, kinds) && beginning.size > 0 &&
               memmem(beginning.data, beginning.size, mark, sizeof(mark) - 1) != NULL;
}

bool context_declares(const char *path) {
        static const char *const patterns[] = {
                "pyproject.toml",    "setup.py",          "setup.cfg",        "MANIFEST.in",
                "requirements*.txt", "*requirements.txt", "constraints*.txt", "requirements/*.txt",
                "requirements/*.in", "requirements*.in",  "poetry.lock",      "pdm.lock",
                "uv.lock",           "Pipfile",           "Pipfile.lock",     "pylock*.toml",
                "README*",           "LICENSE*",          "VERSION*",         NULL,
        };

        for (const char *const *pattern = patterns; *pattern != NULL; pattern++)
                if (fnmatch(*pattern, path, FNM_PATHNAME) == 0)
                        return true;
        return false;
}
