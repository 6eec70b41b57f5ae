/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration files of MCP clients, and the entry of this program in them. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* One client. Sources of the shapes: the clients' own documentation, as of 2026-07. */
struct sbx_cli_mcp_client {
        const char *name, *title;
        const char *directory; /* of the file, below the project or the user's configuration; NULL: the same */
        const char *file;      /* "mcp.json" */
        const char *path;      /* directory and file, for people */
        const char *servers;   /* the member that holds the entries */
        const char *variable;  /* how a value names an environment variable, with one %s; NULL: it can't */
        bool typed;            /* an entry says "type": "stdio" or "http" */
        bool url_only;         /* an entry with a URL has no type */
        bool local_only;       /* servers with a URL are not for this file */
        bool of_user;          /* the file is the user's, not a project's, and the client has no shell's PATH */
        const char *next;      /* what the user does then */
};

/* What is to be written; borrowed. */
struct sbx_cli_mcp_entry {
        const char *url;            /* of a server that runs; NULL: the client starts this program itself */
        const char *token_variable; /* the environment variable that holds the server's token; NULL: none */
        bool force;                 /* replace an entry of this program that differs */
};

/* NULL past the end. */
const struct sbx_cli_mcp_client *sbx_cli_mcp_client_at(size_t index);
/* -EINVAL, with the known names. */
int sbx_cli_mcp_client_find(const char *name, const struct sbx_cli_mcp_client **ret_client, struct sbx_error *err);

/* -EINVAL: the client's file can't hold such an entry. */
int sbx_cli_mcp_entry_check(const struct sbx_cli_mcp_client *client, const struct sbx_cli_mcp_entry *entry,
                            struct sbx_error *err);
/* Adds this program to the client's file; other entries stay, and what was there is kept beside it, with ".bak" at its
 * end. `project_fd` is the project's directory; a client of the user's has a directory of its own. `*ret_path` is the
 * file, for people (the caller frees). 1: written; 0: the entry is there. */
int sbx_cli_mcp_client_add(const struct sbx_cli_mcp_client *client, int project_fd,
                           const struct sbx_cli_mcp_entry *entry, char **ret_path, struct sbx_error *err);
