/*
 * The program whose instructions TestInstructions of package interop counts, one
 * operation of two workers of this process:
 *
 *   counted [-self] OPERATION SIZE PASSAGES
 *
 * It is interop/counted over the public API of C UCX: what is changed here is changed
 * there. Without arguments it prints the release.
 *
 *   gcc -std=c11 -O2 -Wall -Wextra -Werror counted.c -lucp -lucs -o counted
 */
#define _DEFAULT_SOURCE
#include <ucp/api/ucp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 3000, AM_ID = 1, HEADER = 16, LINE = 64 };

static ucp_worker_h workers[2];
static ucp_ep_h     ends[2]; /* each leads to the other worker */
static ucp_rkey_h   keys[2];
static uint64_t     address; /* of the memory that the keys open */
static char         *out, *in, *header;
static size_t       size;
static uint64_t     operand, old;
static int          arrived; /* an active message, at its handler */
static void         *fetch;  /* of its data */

typedef struct {
    const char *name;
    uint64_t   features;
    void       (*run)(int from);
} operation_t;

/* Separates the passages. */
__attribute__((noinline)) static void mark(void)
{
    __asm__ volatile("");
}

__attribute__((noinline, noreturn)) static void fail(const char *what, ucs_status_t status)
{
    fprintf(stderr, "counted: %s: %s\n", what, ucs_status_string(status));
    exit(1);
}

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fail(what, status);
    }
}

/* A cache line aligned buffer. */
static void *buffer(size_t length)
{
    size_t room = (length + LINE) & ~(size_t)(LINE - 1);
    void   *p   = aligned_alloc(LINE, room);

    if (p == NULL) {
        fail("aligned_alloc", UCS_ERR_NO_MEMORY);
    }
    return memset(p, 0, room);
}

static int done(void *request)
{
    return !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
}

/* Progresses both workers by turns until an operation is done. */
static void wait_for(void *request, int first)
{
    while (!done(request)) {
        ucp_worker_progress(workers[first]);
        if (done(request)) {
            break;
        }
        ucp_worker_progress(workers[1 - first]);
    }
    if (UCS_PTR_IS_ERR(request)) {
        fail("an operation", UCS_PTR_STATUS(request));
    }
    if (UCS_PTR_IS_PTR(request)) {
        check(ucp_request_check_status(request), "an operation");
        ucp_request_free(request);
    }
}

/* Sends a message to a posted receive. */
static void tag(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *r    = ucp_tag_recv_nbx(workers[1 - from], in, size, 1, (ucp_tag_t)-1, &param);
    void                *s    = ucp_tag_send_nbx(ends[from], out, size, 1, &param);

    wait_for(r, 1 - from);
    wait_for(s, from);
}

/* The same with a synchronous send. */
static void tagsync(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *r    = ucp_tag_recv_nbx(workers[1 - from], in, size, 1, (ucp_tag_t)-1, &param);
    void                *s    = ucp_tag_send_sync_nbx(ends[from], out, size, 1, &param);

    wait_for(r, 1 - from);
    wait_for(s, from);
}

/* Sends a message that no receive waits for, finds it, takes it out and receives it. */
static void probe(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *s    = ucp_tag_send_nbx(ends[from], out, size, 1, &param);
    ucp_tag_recv_info_t info;
    ucp_tag_message_h   m;

    for (;;) {
        ucp_worker_progress(workers[1 - from]);
        m = ucp_tag_probe_nb(workers[1 - from], 1, (ucp_tag_t)-1, 1, &info);
        if (m != NULL) {
            break;
        }
        ucp_worker_progress(workers[from]);
    }
    wait_for(ucp_tag_msg_recv_nbx(workers[1 - from], in, size, m, &param), 1 - from);
    wait_for(s, from);
}

static ucs_status_t on_message(void *arg, const void *head, size_t head_length, void *data, size_t length,
                               const ucp_am_recv_param_t *received)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    (void)head;
    (void)head_length;
    arrived = 1;
    if (received->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        fetch = ucp_am_recv_data_nbx(*(ucp_worker_h*)arg, data, in, length, &param);
    }
    return UCS_OK;
}

static void send_am(int from, const void *head, size_t head_length)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *s;

    arrived = 0;
    fetch   = NULL;
    s       = ucp_am_send_nbx(ends[from], AM_ID, head, head_length, out, size, &param);
    while (!arrived) {
        ucp_worker_progress(workers[1 - from]);
        if (!arrived) {
            ucp_worker_progress(workers[from]);
        }
    }
    wait_for(fetch, 1 - from);
    wait_for(s, from);
}

static void am(int from)
{
    send_am(from, NULL, 0);
}

static void amhdr(int from)
{
    send_am(from, header, HEADER);
}

/* Sends bytes and receives all of them. */
static void stream(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *s    = ucp_stream_send_nbx(ends[from], out, size, &param);
    size_t              length;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags        = UCP_STREAM_RECV_FLAG_WAITALL;
    wait_for(ucp_stream_recv_nbx(ends[1 - from], in, size, &length, &param), 1 - from);
    wait_for(s, from);
}

/* Writes to the peer's memory, and flushes. */
static void put(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    void                *s    = ucp_put_nbx(ends[from], out, size, address, keys[from], &param);

    wait_for(ucp_ep_flush_nbx(ends[from], &param), from);
    wait_for(s, from);
}

/* Reads the peer's memory. */
static void get(int from)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    wait_for(ucp_get_nbx(ends[from], in, size, address, keys[from], &param), from);
}

/* Adds to a word of the peer's memory and gets its previous value. */
static void fadd(int from)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
        .datatype     = ucp_dt_make_contig(sizeof(operand)),
        .reply_buffer = &old
    };

    wait_for(ucp_atomic_op_nbx(ends[from], UCP_ATOMIC_OP_ADD, &operand, 1, address, keys[from], &param), from);
}

/* A round in which there is nothing to do. */
static void idle(int from)
{
    ucp_worker_progress(workers[1 - from]);
}

enum {
    MESSAGES = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM,
    ACCESSES = MESSAGES | UCP_FEATURE_RMA | UCP_FEATURE_AMO64
};

static const operation_t operations[] = {
    {"tag", MESSAGES, tag},
    {"tagsync", MESSAGES, tagsync},
    {"am", MESSAGES, am},
    {"amhdr", MESSAGES, amhdr},
    {"stream", MESSAGES, stream},
    {"put", ACCESSES, put},
    {"get", ACCESSES, get},
    {"fadd", ACCESSES, fadd},
    {"probe", MESSAGES, probe},
    {"idle", MESSAGES, idle},
    {NULL, 0, NULL}
};

/* Opens the workers and connects them; one is connected to itself. */
static ucp_context_h open_pair(const operation_t *op, int self)
{
    ucp_params_t        params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = op->features};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_context_h       context;
    ucp_config_t        *config;
    size_t              length;
    int                 i;

    check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    check(ucp_init(&params, config, &context), "ucp_init");
    ucp_config_release(config);
    for (i = 0; i < 2; i++) {
        ucp_am_handler_param_t handler = {
            .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            .id         = AM_ID,
            .cb         = on_message,
            .arg        = &workers[i]
        };

        if (self && i == 1) {
            workers[1] = workers[0];
            break;
        }
        check(ucp_worker_create(context, &worker, &workers[i]), "ucp_worker_create");
        check(ucp_worker_set_am_recv_handler(workers[i], &handler), "ucp_worker_set_am_recv_handler");
    }
    for (i = 0; i < 2; i++) {
        ucp_ep_params_t end = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
        ucp_address_t   *peer;

        if (self && i == 1) {
            ends[1] = ends[0];
            break;
        }
        check(ucp_worker_get_address(workers[1 - i], &peer, &length), "ucp_worker_get_address");
        end.address = peer;
        check(ucp_ep_create(workers[i], &end, &ends[i]), "ucp_ep_create");
        ucp_worker_release_address(workers[1 - i], peer);
    }
    return context;
}

/* Opens memory of this process to both endpoints. */
static void share(ucp_context_h context)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length     = (size < sizeof(operand)) ? sizeof(operand) : size,
        .flags      = UCP_MEM_MAP_ALLOCATE
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_mem_h      memory;
    void           *key;
    size_t         length;
    int            i;

    check(ucp_mem_map(context, &params, &memory), "ucp_mem_map");
    check(ucp_mem_query(memory, &attr), "ucp_mem_query");
    address = (uint64_t)(uintptr_t)attr.address;
    check(ucp_rkey_pack(context, memory, &key, &length), "ucp_rkey_pack");
    for (i = 0; i < 2; i++) {
        check(ucp_ep_rkey_unpack(ends[i], key, &keys[i]), "ucp_ep_rkey_unpack");
    }
    ucp_rkey_buffer_release(key);
}

/* Progresses both workers until nothing is under way any more. */
static void settle(void)
{
    int i;

    for (i = 0; i < 50; i++) {
        ucp_worker_progress(workers[0]);
        ucp_worker_progress(workers[1]);
    }
}

/* Progresses both workers until the timers that operations have set have expired. */
static void rest(void)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        settle();
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 200);
}

int main(int argc, char **argv)
{
    const operation_t *op = operations;
    int               self, passages, i;
    ucp_context_h     context;

    if (argc == 1) {
        printf("C %s\n", ucp_get_version_string());
        return 0;
    }
    self = strcmp(argv[1], "-self") == 0;
    if (argc != 4 + self) {
        fail("arguments", UCS_ERR_INVALID_PARAM);
    }
    argv += self;
    while (op->name != NULL && strcmp(op->name, argv[1]) != 0) {
        op++;
    }
    if (op->name == NULL) {
        fail(argv[1], UCS_ERR_NO_ELEM);
    }
    size     = strtoul(argv[2], NULL, 10);
    passages = atoi(argv[3]);
    out      = buffer(size);
    in       = buffer(size);
    header   = buffer(HEADER);
    context  = open_pair(op, self);
    if (op->features & UCP_FEATURE_RMA) {
        share(context);
    }
    for (i = 0; i < ROUNDS; i++) {
        op->run(i & 1);
        if (i < 100) {
            settle();
        }
    }
    if (op->run == idle) {
        rest();
    }
    syscall(SYS_getppid);
    mark();
    for (i = 0; i < passages; i++) {
        op->run(i & 1);
        mark();
    }
    syscall(SYS_getppid);
    return 0;
}
