/* SPDX-License-Identifier: Apache-2.0 */
/* expand_image PACKED EXPANDED: for tests of the helper, which takes expanded images alone. */
#include <fcntl.h>
#include <stdio.h>

#include "engine/image.h"

int main(int argc, char **argv) {
        char message[256];
        int from, to;

        if (argc != 3)
                return 2;
        from = open(argv[1], O_RDONLY | O_CLOEXEC);
        to = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (from < 0 || to < 0) {
                perror("expand_image");
                return 1;
        }
        if (image_expand(from, to, message, sizeof(message)) < 0) {
                fprintf(stderr, "expand_image: %s\n", message);
                return 1;
        }
        return 0;
}
