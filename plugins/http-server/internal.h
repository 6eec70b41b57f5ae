/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of plugins/http-server share: the server, its connections and its exchanges.
 *
 * "The loop" is the server's one thread (loop.c). It alone calls libmicrohttpd, so connections and all that is not said
 * to have a lock belong to it. Lock order: exchange, then server. */
#pragma once

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <snipara-sandbox/plugin.h>

#include "guard.h"
#include "head.h"
#include "http_server.h"
#include "rate.h"
#include "target.h"

#define HS_ORIGIN "http-server"
#define HS_NS_PER_MS UINT64_C(1000000)
#define HS_ADDRESS_SIZE INET6_ADDRSTRLEN

struct hs_limits {
        size_t body_max, stream_max;
        unsigned header_max, connections_max, per_address_max;
        uint64_t idle_ns, request_ns, write_ns;
};

/* Bytes of all request bodies in memory. */
struct hs_budget {
        atomic_uint references;
        atomic_size_t used;
        size_t max;
};

struct hs_server {
        struct hs_limits limits;
        const struct hs_auth *auth;
        const struct hs_route *routes;
        void (*log)(void *data, int level, const char *message);
        void *log_data;
        struct hs_guard guard;
        struct hs_rate *rate; /* NULL: no limit */
        bool tls;
        char url[HS_ADDRESS_SIZE + 32];

        struct MHD_Daemon *daemon;
        int listen_fd, epoll_fd, wake_fd;
        uint64_t accept_again_ns; /* no descriptor was left: the listener is out of the set until then; 0: it is in */
        bool accept_fails;        /* and that has been told */
        pthread_t thread;
        bool running; /* the thread is to be joined */
        struct hs_connection *connections, *adding;
        atomic_uint open;
        struct hs_budget *budget;
        uint64_t now_ns;       /* when the loop woke up */
        uint64_t look_next_ns; /* no deadline is before it */

        pthread_mutex_t lock;
        pthread_cond_t changed;                 /* `active` */
        struct hs_exchange *ready, **ready_end; /* lock: have something for the loop */
        unsigned active;                        /* lock: exchanges that are not over */
        bool stopping;                          /* lock: close everything */
        atomic_bool draining;
        atomic_uint_fast64_t counts[4 + 16]; /* enum hs_count, then enum hs_refusal */
};
enum hs_count { HS_COUNT_CONNECTIONS, HS_COUNT_REQUESTS, HS_COUNT_IN, HS_COUNT_OUT, HS_COUNT_REFUSED };

/* What a connection does, and so which time limit it has. */
enum hs_phase {
        HS_IDLE,      /* between two requests */
        HS_RECEIVING, /* a request */
        HS_WAITING,   /* for a handler, or for the next piece of a stream */
        HS_WRITING,   /* a response */
        HS_DOOMED,    /* its socket is shut down; libmicrohttpd closes it next */
        HS_LINGERING, /* libmicrohttpd has closed it; what still comes is thrown away, so that the answer gets through
                       */
};

struct hs_connection {
        struct hs_connection *next, *previous;
        struct hs_server *server;
        struct MHD_Connection *mhd; /* NULL: not begun */
        int fd;
        enum hs_phase phase;
        bool peer_closed;      /* the client will send no more */
        unsigned closed_looks; /* how often input was found after that */
        bool dead;             /* nor take anything */
        bool more_input;       /* came while a request was being answered */
        bool used;             /* a request has been answered */
        bool linger;           /* its client may be sending when it is closed */
        size_t discarded;      /* bytes, while it lingers */
        uint64_t deadline_ns;
        uint64_t acknowledged; /* bytes, when the deadline of a response was last set */
        struct hs_exchange *exchange;
        struct sockaddr_storage peer;
        char address[HS_ADDRESS_SIZE];
};

/* Why a request is answered by the server itself. */
struct hs_refused {
        unsigned status; /* 0: it is not */
        int reason;      /* enum hs_refusal, or -1: not counted */
        const char *message, *hint;
        bool close;             /* what follows on the connection can't be trusted */
        unsigned retry_after_s; /* 0: none */
};

struct hs_exchange {
        pthread_mutex_t lock;
        pthread_cond_t quiet; /* gone_running has become false */
        struct hs_server *server;
        unsigned references; /* lock: memory */
        unsigned holders;    /* lock: those outside, who may answer */

        /* The request; the loop's until the handler is called, constant from then on. */
        struct hs_target target;
        struct hs_head head;
        const char *uri; /* in libmicrohttpd's buffer, while the head is read */
        size_t uri_size;
        const struct hs_route *route;
        const char *origin; /* allowed, to be echoed; NULL: none */
        char *body;
        size_t body_size, body_capacity, body_expected;
        struct hs_budget *budget;
        bool checked, handled, chunked, http10;
        struct hs_refused refused;
        char principal[HS_PRINCIPAL_SIZE];
        char address[HS_ADDRESS_SIZE], rate_key[HS_ADDRESS_SIZE];
        char *challenge; /* WWW-Authenticate; may be NULL */

        struct hs_connection *connection; /* lock: NULL when it is over */
        struct hs_exchange *next_ready;   /* server's lock */
        bool posted;                      /* lock: is in the server's list */
        bool suspended;                   /* lock: libmicrohttpd waits for hs_wake */
        bool answered, streaming, ended;  /* lock */
        bool abort;                       /* lock: close the connection */
        unsigned status;                  /* lock */
        struct MHD_Response *response;    /* lock: to be sent */
        char *stream;                     /* lock: bytes that wait, from stream_begin on */
        size_t stream_begin, stream_end, stream_capacity;
        void (*gone)(void *data); /* lock */
        void *gone_data;
        bool is_gone, gone_called, gone_running, gone_due, went_early; /* lock */
        pthread_t gone_thread;
};

/* server.c */
uint64_t hs_now_ns(void);
int hs_thread_start(pthread_t *ret_thread, void *(*run)(void *data), void *data, struct sbx_error *err);
SBX_PRINTF(3, 4) void hs_log(const struct hs_server *server, int level, const char *format, ...);
void hs_count(struct hs_server *server, unsigned index, uint64_t amount);
void hs_count_refusal(struct hs_server *server, int reason);

/* listen.c */
struct hs_address {
        struct sockaddr_storage address;
        socklen_t size;
        char host[HS_ADDRESS_SIZE];
        bool loopback;
};
int hs_address_parse(const char *text, struct hs_address *ret, struct sbx_error *err);
int hs_listen(const struct hs_address *address, int *ret_fd, struct sbx_error *err);
void hs_accept(struct hs_server *server);
/* The address as limits know it: of IPv6 the network. */
void hs_rate_key(const struct sockaddr_storage *peer, char key[HS_ADDRESS_SIZE]);
/* Takes a connected socket over; it is closed in any case. */
int hs_adopt(struct hs_server *server, int fd, const struct sockaddr_storage *peer, socklen_t peer_size);

/* loop.c */
int hs_loop_open(struct hs_server *server, struct sbx_error *err);
void *hs_loop_run(void *data);
void hs_loop_wake(struct hs_server *server);
/* The exchange's lock is held: the loop will look at it. */
void hs_post(struct hs_exchange *exchange);

/* connection.c; the loop */
void hs_connection_phase(struct hs_connection *connection, enum hs_phase phase);
void hs_connection_event(struct hs_connection *connection, uint32_t events);
void hs_connections_look(struct hs_server *server); /* at the deadlines */
void hs_connection_doom(struct hs_connection *connection);
/* A response to a connection that libmicrohttpd will not write to; as far as it goes without waiting. */
void hs_last_words(int fd, const char *status, const char *message, const char *hint);
void hs_connection_notify(void *data, struct MHD_Connection *mhd, void **context,
                          enum MHD_ConnectionNotificationCode code);

/* request.c: what libmicrohttpd calls */
void *hs_request_begin(void *data, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result hs_request_step(void *data, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **context);
void hs_request_completed(void *data, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code);

/* check.c: whether a request may come in; fills exchange->refused */
void hs_check(struct hs_exchange *exchange, struct MHD_Connection *mhd, const char *method, const char *version);

/* exchange.c */
struct hs_budget *hs_budget_new(size_t max);
int hs_budget_take(struct hs_budget *budget, size_t bytes); /* -ENOBUFS */
/* One reference less, too. NULL is fine. */
void hs_budget_give_back(struct hs_budget *budget, size_t bytes);
struct hs_exchange *hs_exchange_new(struct hs_connection *connection);
void hs_exchange_free_part(struct hs_exchange *exchange); /* one reference of memory less */
void hs_exchange_gone(struct hs_exchange *exchange);      /* the loop: tells whoever wants to know */
void hs_exchange_over(struct hs_exchange *exchange);      /* the loop: it has no connection any more */

/* respond.c */
struct MHD_Response *hs_response_new(const struct hs_exchange *exchange, const struct hs_header *headers,
                                     struct sbx_bytes body);
struct MHD_Response *hs_refusal_response(const struct hs_exchange *exchange);
void hs_response_dress(const struct hs_exchange *exchange, const struct hs_header *headers,
                       struct MHD_Response *response);

/* stream.c */
ssize_t hs_stream_read(void *data, uint64_t position, char *buffer, size_t size);
