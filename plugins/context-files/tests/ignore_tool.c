/* SPDX-License-Identifier: Apache-2.0 */
/* Says which paths an ignore file names: `ignore_tool FILE < PATHS`, a path each line, directories with a slash at the
 * end; answers with the verdict on each line. For the comparison with git. */
#include <stdio.h>
#include <string.h>

#include "ignore.h"

int main(int argc, char **argv) {
        static char text[1 << 20];
        struct ignore_list *list = NULL;
        char *line = NULL;
        size_t capacity = 0, size;
        ssize_t length;
        FILE *file = argc == 2 ? fopen(argv[1], "re") : NULL;

        if (file == NULL)
                return 2;
        size = fread(text, 1, sizeof(text), file);
        fclose(file);
        if (ignore_parse((struct sbx_bytes){text, size}, "", &list) < 0)
                return 2;
        while ((length = getline(&line, &capacity, stdin)) > 0) {
                bool directory;

                if (line[length - 1] == '\n')
                        line[--length] = '\0';
                directory = length > 0 && line[length - 1] == '/';
                if (directory)
                        line[length - 1] = '\0';
                puts(ignore_check(list, line, directory) == IGNORE_YES ? "1" : "0");
        }
        free(line);
        ignore_free(list);
        return 0;
}
