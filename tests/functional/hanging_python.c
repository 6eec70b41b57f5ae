/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for an interpreter that never comes up. */
#include <unistd.h>

int main(void) {
        for (;;)
                pause();
}
