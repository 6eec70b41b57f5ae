/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the log. */
#include "docker.h"

#define LINE_MAX_BYTES 2048

void docker_log(const struct docker *docker, int level, const char *format, ...) {
        char line[LINE_MAX_BYTES];
        va_list args;

        if (docker->host->log == NULL)
                return;
        va_start(args, format);
        if (vsnprintf(line, sizeof(line), format, args) < 0)
                line[0] = '\0';
        va_end(args);
        docker->host->log(docker->host->self, level, line);
}
