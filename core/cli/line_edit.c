/* SPDX-License-Identifier: Apache-2.0 */
/* The line reader with editing and history, on libedit. */
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "base/cleanup.h"
#include "cli/line_internal.h"

#define HISTORY_LINES 1000

struct sbx_cli_editor {
        EditLine *edit;
        History *history;
        char *history_path; /* NULL: not kept */
        struct sbx_cli_input *input;
        const char *prompt;
        mbstate_t decoding;
        int problem; /* why the last read ended early */
};

static struct sbx_cli_editor *editor_of(EditLine *edit) {
        void *editor = NULL;

        el_get(edit, EL_CLIENTDATA, &editor);
        return editor;
}

static const char *show_prompt(EditLine *edit) {
        const struct sbx_cli_editor *editor = editor_of(edit);

        return editor->prompt != NULL ? editor->prompt : "";
}

/* libedit's own reader would not notice a signal that another thread's handler took. 1, 0: end of file, -1: error. */
static int read_character(EditLine *edit, wchar_t *ret) {
        struct sbx_cli_editor *editor = editor_of(edit);
        struct sbx_cli_input *input = editor->input;

        for (;;) {
                int r = sbx_cli_input_fill(input);
                size_t n;

                if (r <= 0) {
                        editor->problem = r;
                        return r < 0 ? -1 : 0;
                }
                n = mbrtowc(ret, input->bytes + input->at, 1, &editor->decoding);
                input->at++;
                if (n == (size_t)-1) {
                        editor->decoding = (mbstate_t){0};
                        *ret = L'?';
                }
                if (n != (size_t)-2)
                        return 1;
        }
}

static void load_history(struct sbx_cli_editor *editor, const char *path) {
        HistEvent event;
        struct stat st;

        history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
        history(editor->history, &event, H_SETUNIQUE, 1);
        if (path == NULL)
                return;
        editor->history_path = strdup(path);
        /* A link in its place is not followed; it is replaced by a file when the history is saved. */
        if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
                history(editor->history, &event, H_LOAD, path);
}

/* Written beside and renamed, so that a full disk leaves the old one. A history is worth no error message. */
static void save_history(const struct sbx_cli_editor *editor) {
        _cleanup_free_ char *temporary = NULL;
        HistEvent event;
        bool saved;
        FILE *file;
        int fd;

        if (editor->history_path == NULL || asprintf(&temporary, "%s.new", editor->history_path) < 0) {
                temporary = NULL;
                return;
        }
        (void)unlink(temporary);
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        file = fd >= 0 ? fdopen(fd, "w") : NULL;
        if (file == NULL) {
                if (fd >= 0)
                        close(fd);
                return;
        }
        saved = history(editor->history, &event, H_SAVE_FP, file) >= 0;
        saved = fclose(file) == 0 && saved;
        if (!saved || rename(temporary, editor->history_path) < 0)
                (void)unlink(temporary);
}

/* Characters are UTF-8 here: Python source is. */
static void set_locale(void) {
        setlocale(LC_CTYPE, "");
        if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
                setlocale(LC_CTYPE, "C.UTF-8");
}

struct sbx_cli_editor *sbx_cli_editor_new(const struct sbx_cli *cli, const char *history_path,
                                          struct sbx_cli_input *input) {
        struct sbx_cli_editor *editor = calloc(1, sizeof(*editor));

        if (editor == NULL)
                return NULL;
        set_locale();
        editor->input = input;
        editor->edit = el_init(cli->program, stdin, stdout, stderr);
        editor->history = history_init();
        if (editor->edit == NULL || editor->history == NULL) {
                sbx_cli_editor_free(editor);
                return NULL;
        }
        el_set(editor->edit, EL_CLIENTDATA, editor);
        el_set(editor->edit, EL_PROMPT, show_prompt);
        el_set(editor->edit, EL_SIGNAL, 0);
        el_set(editor->edit, EL_EDITOR, "emacs");
        el_set(editor->edit, EL_GETCFN, read_character);
        el_set(editor->edit, EL_HIST, history, editor->history);
        el_set(editor->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
        el_set(editor->edit, EL_BIND, "\t", "ed-insert", NULL); /* indentation, not completion */
        el_source(editor->edit, NULL);                          /* the user's ~/.editrc wins */
        load_history(editor, history_path);
        return editor;
}

void sbx_cli_editor_free(struct sbx_cli_editor *editor) {
        if (editor == NULL)
                return;
        if (editor->history != NULL && editor->edit != NULL)
                save_history(editor);
        if (editor->edit != NULL)
                el_end(editor->edit);
        if (editor->history != NULL)
                history_end(editor->history);
        free(editor->history_path);
        free(editor);
}

static bool is_blank(const char *text, int size) {
        for (int i = 0; i < size; i++)
                if (strchr(" \t\r\n", text[i]) == NULL)
                        return false;
        return true;
}

int sbx_cli_editor_read(struct sbx_cli_editor *editor, const char *prompt, struct sbx_buffer *out) {
        HistEvent event;
        const char *text;
        int size = 0;

        editor->prompt = prompt;
        editor->problem = 0;
        editor->decoding = (mbstate_t){0};
        /* Before the prompt, not behind it: a key pressed in between would be taken for cooked mode. */
        el_set(editor->edit, EL_PREP_TERM, 1);
        el_resize(editor->edit);
        text = el_gets(editor->edit, &size);
        if (editor->problem < 0 || text == NULL || size <= 0)
                return editor->problem;
        if (!is_blank(text, size))
                history(editor->history, &event, H_ENTER, text);
        size = sbx_buffer_append(out, text, (size_t)size);
        return size < 0 ? size : 1;
}
