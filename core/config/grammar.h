/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and syntax of configuration files: libconfig's, without @include. */
#pragma once

#include "config/internal.h"

enum token_kind {
        TOKEN_BLANK, /* blanks, newlines, comments */
        TOKEN_NAME,
        TOKEN_BOOLEAN,
        TOKEN_NUMBER,
        TOKEN_WIDE_NUMBER, /* an integer beyond 32 bits without the mark for it */
        TOKEN_STRING,
        TOKEN_MARK, /* one of  = : ; , { } [ ] ( ) */
        TOKEN_END,
        TOKEN_BAD, /* `problem` says why, `hint` what to do if that is not plain */
};

struct token {
        enum token_kind kind;
        const char *text, *problem, *hint;
        size_t size;
};
struct token sbx_token_read(const char *text, const char *end);

/* What may come next. */
enum syntax_state {
        SYNTAX_NAME,   /* a setting, or the end of the group */
        SYNTAX_ASSIGN, /* = or : */
        SYNTAX_VALUE,
        SYNTAX_AFTER_VALUE,
        SYNTAX_FIRST_ITEM, /* a value, or the end of the list */
        SYNTAX_ITEM,       /* after a comma: the same, since a comma too many is a common slip */
        SYNTAX_AFTER_ITEM,
};
struct syntax {
        enum syntax_state state;
        bool after_string;  /* another string would be joined to it */
        bool comma_dangles; /* the last comma stood before a closing bracket, which libconfig 1.5 does not take */
        unsigned depth;
        char open[SBX_CONFIG_DEPTH_MAX]; /* brackets */
};
/* Takes one step. NULL, or what would have been right. */
const char *sbx_syntax_step(struct syntax *syntax, const struct token *token);
