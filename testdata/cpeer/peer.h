/*
 * What the parts of the peer share: cpeer.c says what it is.
 */
#ifndef PEER_H
#define PEER_H

#define _POSIX_C_SOURCE 200809L

#include <ucp/api/ucp.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LINE     = 64 * 1024, /* a command, worker addresses included */
    MAX_ARGS     = 10,
    MAX_WORKERS  = 2,
    MAX_EPS      = 256,
    MAX_REQUESTS = 256,
    MAX_MEMORIES = 64, /* and as many keys */
    MAX_SEGMENTS = 16,
    MAX_VERDICT  = 64,
    GUARD        = 64,  /* bytes around each segment that nobody may touch */
    FILL         = 0xa5, /* what guards and receive buffers hold at first */
    SPINS        = 200  /* empty progress rounds before the peer sleeps */
};

/* The contents of a message: those that seed selects, from byte offset on. */
typedef struct {
    uint64_t seed, offset;
} content_t;

/* A message buffer: one or several segments with guards around each. */
typedef struct {
    ucp_mem_h     memory; /* of the storage if UCX allocated it, or NULL */
    unsigned char *storage;
    size_t         storage_size;
    size_t         size; /* sum of the segments */
    ucp_dt_iov_t   segment[MAX_SEGMENTS];
    size_t         segments;
    ucp_datatype_t datatype;
    const void     *argument; /* what the UCP call gets: address, IOV list */
    size_t         count;
} buffer_t;

typedef struct {
    int                 used;
    int                 done;
    int                 is_receive;
    ucs_status_t        status;
    ucp_tag_recv_info_t info;
    void                *handle; /* UCP's request, NULL if it needed none */
    buffer_t            buffer;
    unsigned char       *header; /* of an active message */
    uint64_t            operand; /* of an atomic operation */
    uint64_t            result;  /* of one that fetches */
    int                 is_fetch;
} request_t;

typedef struct {
    ucp_ep_h     handle;
    ucp_worker_h worker;
    ucs_status_t failure; /* what the error handler was told */
} endpoint_t;

/* A command: each gets its arguments and sends exactly one reply. */
typedef struct {
    const char *name; /* NULL: the end of a list */
    size_t     args;
    void       (*run)(char **args);
} command_t;

extern const command_t am_commands[], stream_commands[], conn_commands[];

extern ucp_context_h context;
extern ucp_worker_h  worker; /* that commands are for */
extern endpoint_t    endpoints[MAX_EPS];

void reply(const char *format, ...);
void *allocate(size_t size);

/* These reply if there is nothing of the kind. */
int parse_index(const char *text, size_t limit, size_t *index);
request_t *new_request(const char *text);
endpoint_t *find_endpoint(const char *text);
endpoint_t *new_endpoint(const char *text);

int parse_number(const char *text, uint64_t *value);
int parse_content(const char *text, content_t *content);

void pattern_fill(unsigned char *bytes, size_t length, content_t content);
size_t pattern_match(const unsigned char *bytes, size_t length, content_t content);
void pattern_verify(const unsigned char *bytes, size_t length, content_t content,
                    char verdict[MAX_VERDICT]);

int buffer_init(buffer_t *buffer, const char *layout, size_t size);
void buffer_fill(buffer_t *buffer, content_t content);
void buffer_verify(const buffer_t *buffer, content_t content, size_t length,
                   char verdict[MAX_VERDICT]);
void buffer_release(buffer_t *buffer);

ucp_request_param_t send_params(request_t *request);
void request_started(request_t *request, ucs_status_ptr_t result);

void endpoint_create(endpoint_t *endpoint, ucp_ep_params_t *params, const char *mode);

/* Their worker is about to go, and: it has gone. */
void am_retire(void);
void am_forget(void);

uint64_t now_ms(void);
int progress_once(int want_input);

#endif
