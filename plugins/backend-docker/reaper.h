/* SPDX-License-Identifier: Apache-2.0 */
/* What a server and its reaper have in common. The reaper is a program of its own in a session of its own, so that what
 * kills the server does not kill it. Its configuration is a JSON object in a sealed memfd:
 *      {"owner", "directory", "engine", "timeout_ms", "tls_ca"?, "tls_certificate"?, "tls_key"?}
 * The server's end of the socket (SOCK_SEQPACKET) sends messages that begin with one of the letters below. The server is
 * dead when the process of the pidfd is: a program that embeds it may fork, and a child hold the socket open. Without
 * one, it is dead when the socket is closed. The reaper closes its end when it is done, and says nothing. */
#ifndef DOCKER_REAPER_H
#define DOCKER_REAPER_H

#define REAPER_PROGRAM "sbx-docker-reaper"
#define REAPER_SOCKET_FD 3
#define REAPER_CONFIG_FD 4
#define REAPER_PIDFD 5 /* of the server; not open where the kernel has none */
#define REAPER_CONFIG_MAX ((size_t)64 << 10)
#define REAPER_END 'e'     /* the server stops: remove what is left of it, now */
#define REAPER_FORSAKE 'f' /* and a container's name: remove it when it comes into being */
#define REAPER_NAME_MAX 192
#define REAPER_GOES_ON 3 /* exit code: nothing is left but what may still come, and a child of it waits for that */

#endif
