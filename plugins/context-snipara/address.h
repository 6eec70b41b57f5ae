/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that a credential may be sent to. Pure functions. */
#pragma once

#include <stdbool.h>

#include <snipara-sandbox/types.h>

/* Checks the base and returns it without slashes at its end, to be freed. https, or http to this machine alone: a
 * credential never crosses a network in the clear. No user, query or fragment. -EINVAL, -ENOMEM. */
int snipara_address_base(const char *text, char **ret_base, struct sbx_error *err);
/* "http://127.0.0.1:8080/mcp": plain HTTP, which only a base on this machine may be. */
bool snipara_address_plain(const char *base);
/* {base}/{slug}; NULL: no memory. The slug has been checked. */
char *snipara_address_project(const char *base, const char *slug);
