/* SPDX-License-Identifier: Apache-2.0 */
/* Lists in pages: tools, prompts and templates, kept encoded for each revision until the host says that they changed;
 * and resources, which are asked for each time. */
#pragma once

#include "call.h"
#include "connection.h"

enum mcp_list_kind { MCP_LIST_TOOLS = 0, MCP_LIST_PROMPTS = 1, MCP_LIST_TEMPLATES = 2, MCP_LIST_RESOURCES = 3 };
#define MCP_LIST_KINDS 4

struct mcp_lists;
int mcp_lists_new(struct mcp_server *server, struct mcp_lists **ret_lists, struct sbx_error *err);
void mcp_lists_free(struct mcp_lists *lists); /* NULL is fine */
struct mcp_lists *mcp_server_lists(struct mcp_server *server);
/* What the host tells of a change (enum sbx_change_kind): a list that it concerns is asked for anew. Any thread. */
void mcp_lists_forget(struct mcp_lists *lists, uint32_t change);

/* Answers a request for a page of one of the standing lists, from its params.cursor on. */
void mcp_lists_reply(struct mcp_connection *connection, const struct mcp_message *message, enum mcp_list_kind kind,
                     const struct mcp_target *target);

/* Whether params.cursor is absent, or one that this server gave this principal for that list. False: it was answered
 * that it is not. */
bool mcp_lists_check_cursor(struct mcp_connection *connection, const struct mcp_message *message,
                            enum mcp_list_kind kind, const struct mcp_target *target);
/* mcp_call_how.shape of resources/list: a page of what the host has listed. */
int mcp_lists_shape_resources(const struct mcp_call_end *end, struct sbx_bytes result, struct mcp_text *storage,
                              struct sbx_bytes *ret_result);

/* ---- pages.c: an encoded list ---- */

/* Items of a list as a revision's clients may see them. Constant once made. */
struct mcp_page_list;
/* From a JSON array. -EINVAL: it is none, or an item has no name; -EFBIG, -ENOMEM. */
int mcp_page_list_new(enum mcp_list_kind kind, enum mcp_revision revision, json_t *items,
                      struct mcp_page_list **ret_list);
struct mcp_page_list *mcp_page_list_ref(struct mcp_page_list *list);
void mcp_page_list_unref(struct mcp_page_list *list); /* NULL is fine */
/* Appends the result of a list method: a page of at most settings.page_size items that begins where `cursor` (NULL: at
 * the beginning) says. -EINVAL: not a cursor for this; -ENOMEM. */
int mcp_page_list_write(const struct mcp_page_list *list, const struct mcp_server *server, const char *principal,
                        const char *cursor, struct mcp_text *text);
/* 0, -EINVAL or -ENOMEM, whether the server has signed it for this. */
int mcp_cursor_check(const struct mcp_server *server, const char *principal, enum mcp_list_kind kind,
                     const char *cursor);
