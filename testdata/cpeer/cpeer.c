/*
 * A peer for the interop suite: drives the public API of C UCX by commands on
 * standard input, one line each, and answers every command with one line on
 * standard output. The Go peer (interop/gopeer) speaks the same protocol, which
 * the comment of package interop describes.
 *
 * The peer makes progress while it waits for input, so that a rendezvous which
 * the other side waits for completes. Settings come from UCX_* variables. All
 * else that is printed, by UCX above all, goes to standard error.
 *
 *   gcc -std=c11 -O2 -Wall -Wextra -Werror *.c -lucp -lucs -o cpeer
 */
#include "peer.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

/* Memory that the other side may access. */
typedef struct {
    ucp_mem_h handle; /* NULL: not in use */
    int       allocated; /* by UCX */
    buffer_t  buffer;
} memory_t;

ucp_context_h context;
ucp_worker_h  worker;
endpoint_t    endpoints[MAX_EPS];

static ucp_worker_h      workers[MAX_WORKERS];
static ucp_datatype_t    generic_datatype;
static request_t         requests[MAX_REQUESTS];
static memory_t          memories[MAX_MEMORIES];
static ucp_rkey_h        keys[MAX_MEMORIES];
static ucp_tag_message_h held_message; /* taken by the last probe */
static FILE              *replies;
static int               held; /* no progress is made */

/* Replies */

void reply(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(replies, format, args);
    va_end(args);
    fputc('\n', replies);
    if (fflush(replies) != 0) {
        exit(1); /* the driver is gone */
    }
}

static void die(const char *what, ucs_status_t status)
{
    fprintf(stderr, "cpeer: %s: %s\n", what, ucs_status_string(status));
    exit(1);
}

void *allocate(size_t size)
{
    void *p = malloc(size + 1);

    if (p == NULL) {
        die("malloc", UCS_ERR_NO_MEMORY);
    }
    return p;
}

/* Arguments */

int parse_number(const char *text, uint64_t *value)
{
    char *end;

    errno  = 0;
    *value = strtoull(text, &end, 0);
    return (errno == 0) && (end != text) && (*end == '\0');
}

/* SEED or SEED+OFFSET */
int parse_content(const char *text, content_t *content)
{
    char *end;

    errno           = 0;
    content->offset = 0;
    content->seed   = strtoull(text, &end, 0);
    if ((errno != 0) || (end == text)) {
        return 0;
    }
    return (*end == '\0') || ((*end == '+') && parse_number(end + 1, &content->offset));
}

int parse_index(const char *text, size_t limit, size_t *index)
{
    uint64_t value;

    if (!parse_number(text, &value) || (value >= limit)) {
        reply("err bad number: %s", text);
        return 0;
    }
    *index = value;
    return 1;
}

request_t *new_request(const char *text)
{
    size_t index;

    if (!parse_index(text, MAX_REQUESTS, &index)) {
        return NULL;
    }
    if (requests[index].used) {
        reply("err request %s is in use", text);
        return NULL;
    }
    memset(&requests[index], 0, sizeof(requests[index]));
    return &requests[index];
}

static request_t *find_request(const char *text)
{
    size_t index;

    if (!parse_index(text, MAX_REQUESTS, &index)) {
        return NULL;
    }
    if (!requests[index].used) {
        reply("err no request %s", text);
        return NULL;
    }
    return &requests[index];
}

endpoint_t *find_endpoint(const char *text)
{
    size_t index;

    if (!parse_index(text, MAX_EPS, &index)) {
        return NULL;
    }
    if (endpoints[index].handle == NULL) {
        reply("err no endpoint %s", text);
        return NULL;
    }
    return &endpoints[index];
}

endpoint_t *new_endpoint(const char *text)
{
    size_t index;

    if (!parse_index(text, MAX_EPS, &index)) {
        return NULL;
    }
    if (endpoints[index].handle != NULL) {
        reply("err endpoint %s is in use", text);
        return NULL;
    }
    return &endpoints[index];
}

static int hex_digit(char c)
{
    if ((c >= '0') && (c <= '9')) {
        return c - '0';
    }
    if ((c >= 'a') && (c <= 'f')) {
        return c - 'a' + 10;
    }
    return -1;
}

static int parse_hex(const char *text, unsigned char *bytes)
{
    for (; *text != '\0'; text += 2) {
        int high = hex_digit(text[0]);
        int low  = (high < 0) ? -1 : hex_digit(text[1]);

        if (low < 0) {
            return 0;
        }
        *bytes++ = (unsigned char)((high << 4) | low);
    }
    return 1;
}

/* Message contents: byte i of a message is byte i % 8 (from the low end) of
 * word(seed, i / 8), the SplitMix64 output function. */

static uint64_t pattern_word(uint64_t seed, uint64_t index)
{
    uint64_t x = seed + ((index + 1) * 0x9e3779b97f4a7c15u);

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Writes bytes of a message. */
void pattern_fill(unsigned char *bytes, size_t length, content_t content)
{
    uint64_t offset = content.offset;
    uint64_t word   = pattern_word(content.seed, offset / 8) >> (8 * (offset % 8));

    for (; length > 0; --length, ++offset, word >>= 8) {
        if (offset % 8 == 0) {
            word = pattern_word(content.seed, offset / 8);
        }
        *bytes++ = (unsigned char)word;
    }
}

/* Returns how many bytes equal those of a message. */
size_t pattern_match(const unsigned char *bytes, size_t length, content_t content)
{
    unsigned char expected[512];
    size_t        matched, chunk, i;

    for (matched = 0; matched < length; matched += chunk, content.offset += chunk) {
        chunk = length - matched;
        chunk = (chunk < sizeof(expected)) ? chunk : sizeof(expected);
        pattern_fill(expected, chunk, content);
        for (i = 0; i < chunk; ++i) {
            if (bytes[matched + i] != expected[i]) {
                return matched + i;
            }
        }
    }
    return length;
}

/* Says "same" or which byte is the first that differs. */
void pattern_verify(const unsigned char *bytes, size_t length, content_t content,
                    char verdict[MAX_VERDICT])
{
    size_t matched = pattern_match(bytes, length, content);

    if (matched == length) {
        snprintf(verdict, MAX_VERDICT, "same");
    } else {
        snprintf(verdict, MAX_VERDICT, "differs@%zu", matched);
    }
}

/* Buffers */

/* Lays out a buffer: "contig" and "generic" are one segment; "iovN" is N
 * segments, of which the first is empty and the last takes the remainder. The
 * storage is allocated if it is NULL. */
static int buffer_init_at(buffer_t *buffer, const char *layout, size_t size, void *storage)
{
    uint64_t      segments = 1;
    unsigned char *next;
    size_t        i, each;

    memset(buffer, 0, sizeof(*buffer));
    if (strncmp(layout, "iov", 3) == 0) {
        if (!parse_number(layout + 3, &segments) || (segments < 2) ||
            (segments > MAX_SEGMENTS)) {
            reply("err bad layout: %s", layout);
            return 0;
        }
        buffer->datatype = UCP_DATATYPE_IOV;
    } else if (strcmp(layout, "generic") == 0) {
        buffer->datatype = generic_datatype;
    } else if (strcmp(layout, "contig") == 0) {
        buffer->datatype = ucp_dt_make_contig(1);
    } else {
        reply("err bad layout: %s", layout);
        return 0;
    }

    buffer->size         = size;
    buffer->segments     = segments;
    buffer->storage_size = size + ((segments + 1) * GUARD);
    buffer->storage      = (storage != NULL) ? storage : allocate(buffer->storage_size);
    memset(buffer->storage, FILL, buffer->storage_size);

    each = (segments == 1) ? size : size / (segments - 1);
    next = buffer->storage + GUARD;
    for (i = 0; i < segments; ++i) {
        size_t length = ((i == 0) && (segments > 1)) ? 0 : each;

        if (i == segments - 1) {
            length = size - ((segments == 1) ? 0 : each * (segments - 2));
        }
        buffer->segment[i].buffer = next;
        buffer->segment[i].length = length;
        next                     += length + GUARD;
    }

    if (buffer->datatype == UCP_DATATYPE_IOV) {
        buffer->argument = buffer->segment;
        buffer->count    = segments;
    } else {
        buffer->argument = buffer->segment[0].buffer;
        buffer->count    = size;
    }
    return 1;
}

/* Lets UCX allocate memory for size bytes and guards around them. */
static ucs_status_t mapped_storage(size_t size, ucp_mem_h *handle, void **storage)
{
    ucp_mem_map_params_t params = {0};
    ucp_mem_attr_t       attr   = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t         status;

    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length     = size + (2 * GUARD);
    params.flags      = UCP_MEM_MAP_ALLOCATE;
    status            = ucp_mem_map(context, &params, handle);
    if (status == UCS_OK) {
        status   = ucp_mem_query(*handle, &attr);
        *storage = attr.address;
    }
    return status;
}

/* "new" is one segment in memory that UCX allocates. */
int buffer_init(buffer_t *buffer, const char *layout, size_t size)
{
    ucp_mem_h    memory;
    void         *storage;
    ucs_status_t status;

    if (strcmp(layout, "new") != 0) {
        return buffer_init_at(buffer, layout, size, NULL);
    }
    status = mapped_storage(size, &memory, &storage);
    if (status != UCS_OK) {
        reply("err ucp_mem_map: %s", ucs_status_string(status));
        return 0;
    }
    buffer_init_at(buffer, "contig", size, storage);
    buffer->memory = memory;
    return 1;
}

void buffer_release(buffer_t *buffer)
{
    if (buffer->memory != NULL) {
        ucp_mem_unmap(context, buffer->memory);
    } else {
        free(buffer->storage);
    }
}

void buffer_fill(buffer_t *buffer, content_t content)
{
    size_t i;

    for (i = 0; i < buffer->segments; ++i) {
        pattern_fill(buffer->segment[i].buffer, buffer->segment[i].length, content);
        content.offset += buffer->segment[i].length;
    }
}

/* Returns the first byte of a range that no longer holds FILL, or NULL. */
static const unsigned char *first_changed(const unsigned char *start,
                                          const unsigned char *end)
{
    for (; start < end; ++start) {
        if (*start != FILL) {
            return start;
        }
    }
    return NULL;
}

/* Compares the first length bytes with the contents and everything else with
 * what it held before the receive. Says "same" or where the first bad byte is:
 * an offset in the message, or in the storage for a byte that had no business
 * to change. */
void buffer_verify(const buffer_t *buffer, content_t content, size_t length,
                   char verdict[MAX_VERDICT])
{
    const unsigned char *next  = buffer->storage; /* all before it was looked at */
    size_t              offset = 0;
    const unsigned char *changed, *bytes;
    size_t              i, part, matched;

    for (i = 0; i < buffer->segments; ++i) {
        bytes   = buffer->segment[i].buffer;
        changed = first_changed(next, bytes);
        if (changed != NULL) {
            snprintf(verdict, MAX_VERDICT, "overrun@%td", changed - buffer->storage);
            return;
        }
        part    = buffer->segment[i].length;
        part    = (part < length - offset) ? part : length - offset;
        matched = pattern_match(bytes, part, content);
        offset += matched;
        content.offset += matched;
        if (matched < part) {
            snprintf(verdict, MAX_VERDICT, "differs@%zu", offset);
            return;
        }
        next = bytes + part;
    }
    changed = first_changed(next, buffer->storage + buffer->storage_size);
    if (changed != NULL) {
        snprintf(verdict, MAX_VERDICT, "overrun@%td", changed - buffer->storage);
    } else {
        snprintf(verdict, MAX_VERDICT, "same");
    }
}

/* The generic datatype: a plain copy through the pack and unpack callbacks. */

typedef struct {
    unsigned char *bytes;
    size_t        size;
} generic_state_t;

static void *generic_start(void *bytes, size_t count)
{
    generic_state_t *state = allocate(sizeof(*state));

    state->bytes = bytes;
    state->size  = count;
    return state;
}

static void *generic_start_pack(void *arg, const void *bytes, size_t count)
{
    (void)arg;
    return generic_start((void*)(uintptr_t)bytes, count);
}

static void *generic_start_unpack(void *arg, void *bytes, size_t count)
{
    (void)arg;
    return generic_start(bytes, count);
}

static size_t generic_packed_size(void *arg)
{
    return ((generic_state_t*)arg)->size;
}

static size_t generic_pack(void *arg, size_t offset, void *dest, size_t max_length)
{
    const generic_state_t *state = arg;
    size_t                length = state->size - offset;

    length = (length < max_length) ? length : max_length;
    memcpy(dest, state->bytes + offset, length);
    return length;
}

static ucs_status_t generic_unpack(void *arg, size_t offset, const void *src, size_t length)
{
    const generic_state_t *state = arg;

    if ((offset > state->size) || (length > state->size - offset)) {
        return UCS_ERR_MESSAGE_TRUNCATED;
    }
    memcpy(state->bytes + offset, src, length);
    return UCS_OK;
}

static void generic_finish(void *arg)
{
    free(arg);
}

static const ucp_generic_dt_ops_t generic_ops = {
    .start_pack   = generic_start_pack,
    .start_unpack = generic_start_unpack,
    .packed_size  = generic_packed_size,
    .pack         = generic_pack,
    .unpack       = generic_unpack,
    .finish       = generic_finish
};

/* Requests */

static void on_sent(void *handle, ucs_status_t status, void *user_data)
{
    request_t *request = user_data;

    (void)handle;
    request->status = status;
    request->done   = 1;
}

static void on_received(void *handle, ucs_status_t status,
                        const ucp_tag_recv_info_t *info, void *user_data)
{
    request_t *request = user_data;

    (void)handle;
    request->status = status;
    request->info   = *info;
    request->done   = 1;
}

ucp_request_param_t send_params(request_t *request)
{
    ucp_request_param_t params = {0};

    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send      = on_sent;
    params.user_data    = request;
    if (request->buffer.storage != NULL) {
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        params.datatype      = request->buffer.datatype;
    }
    return params;
}

/* 1.13.1 tells nothing about a receive that completes in its call, so receives
 * complete by their callback. */
static ucp_request_param_t receive_params(request_t *request)
{
    ucp_request_param_t params = send_params(request);

    params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv       = on_received;
    return params;
}

/* Takes what a UCP call returned. */
void request_started(request_t *request, ucs_status_ptr_t result)
{
    request->used = 1;
    if (UCS_PTR_IS_PTR(result)) {
        request->handle = result;
    } else {
        request->status = UCS_PTR_STATUS(result);
        request->done   = 1;
    }
    reply("ok");
}

/* Ends a request whose completion was seen. */
static void request_release(request_t *request)
{
    if (request->handle != NULL) {
        ucp_request_free(request->handle);
    }
    buffer_release(&request->buffer);
    free(request->header);
    memset(request, 0, sizeof(*request));
}

/* Progress */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return ((uint64_t)t.tv_sec * 1000000000) + (uint64_t)t.tv_nsec;
}

uint64_t now_ms(void)
{
    return read_clock(CLOCK_MONOTONIC) / 1000000;
}

/* One round of progress; sleeps for a millisecond, or until input arrives when
 * input is wanted, if the rounds before it found nothing to do either. Returns
 * whether input was seen. */
int progress_once(int want_input)
{
    static unsigned idle;
    struct pollfd   input = {.fd = want_input ? STDIN_FILENO : -1, .events = POLLIN};
    unsigned        done  = 0;
    size_t          i;

    for (i = 0; (i < MAX_WORKERS) && (workers[i] != NULL); ++i) {
        done += ucp_worker_progress(workers[i]);
    }
    if (done != 0) {
        idle = 0;
        return 0;
    }
    idle += (idle < SPINS);
    return poll(&input, 1, (idle < SPINS) ? 0 : 1) > 0;
}

/* Commands. Each gets its arguments and sends exactly one reply. */

static void do_address(char **args)
{
    ucp_address_t *address;
    size_t        length, i;
    ucs_status_t  status;
    char          *hex;

    (void)args;
    status = ucp_worker_get_address(worker, &address, &length);
    if (status != UCS_OK) {
        reply("err ucp_worker_get_address: %s", ucs_status_string(status));
        return;
    }
    hex    = allocate(2 * length);
    hex[0] = '\0';
    for (i = 0; i < length; ++i) {
        sprintf(hex + (2 * i), "%02x", ((const unsigned char*)address)[i]);
    }
    reply("ok %s", hex);
    free(hex);
    ucp_worker_release_address(worker, address);
}

static void on_endpoint_error(void *arg, ucp_ep_h handle, ucs_status_t status)
{
    (void)handle;
    ((endpoint_t*)arg)->failure = status;
}

void endpoint_create(endpoint_t *endpoint, ucp_ep_params_t *params, const char *mode)
{
    ucs_status_t status;

    endpoint->failure   = UCS_OK;
    endpoint->worker    = worker;
    params->field_mask |= UCP_EP_PARAM_FIELD_USER_DATA;
    params->user_data   = endpoint;
    if (strcmp(mode, "peer") == 0) {
        params->field_mask     |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                  UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_mode        = UCP_ERR_HANDLING_MODE_PEER;
        params->err_handler.cb  = on_endpoint_error;
        params->err_handler.arg = endpoint;
    }
    status = ucp_ep_create(worker, params, &endpoint->handle);
    if (status != UCS_OK) {
        endpoint->handle = NULL;
        reply("err ucp_ep_create: %s", ucs_status_string(status));
        return;
    }
    reply("ok");
}

/* connect EP none|peer ADDRESS */
static void do_connect(char **args)
{
    endpoint_t      *endpoint = new_endpoint(args[0]);
    ucp_ep_params_t params    = {0};
    unsigned char   *address;

    if (endpoint == NULL) {
        return;
    }
    address = allocate(strlen(args[2]));
    if (!parse_hex(args[2], address)) {
        reply("err the address is not hexadecimal");
    } else {
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address    = (const ucp_address_t*)address;
        endpoint_create(endpoint, &params, args[1]);
    }
    free(address);
}

/* send REQUEST EP TAG SIZE SEED LAYOUT async|sync */
static void do_send(char **args)
{
    endpoint_t          *endpoint = find_endpoint(args[1]);
    request_t           *request  = (endpoint == NULL) ? NULL : new_request(args[0]);
    ucp_request_param_t params;
    ucs_status_ptr_t    result;
    uint64_t            tag, size;
    content_t           content;

    if (request == NULL) {
        return;
    }
    if (!parse_number(args[2], &tag) || !parse_number(args[3], &size) ||
        !parse_content(args[4], &content)) {
        reply("err bad number");
        return;
    }
    if (!buffer_init(&request->buffer, args[5], size)) {
        return;
    }
    buffer_fill(&request->buffer, content);
    params = send_params(request);
    if (strcmp(args[6], "sync") == 0) {
        result = ucp_tag_send_sync_nbx(endpoint->handle, request->buffer.argument,
                                       request->buffer.count, tag, &params);
    } else {
        result = ucp_tag_send_nbx(endpoint->handle, request->buffer.argument,
                                  request->buffer.count, tag, &params);
    }
    request_started(request, result);
}

/* recv REQUEST TAG MASK SIZE LAYOUT */
static void do_recv(char **args)
{
    request_t           *request = new_request(args[0]);
    ucp_request_param_t params;
    uint64_t            tag, mask, size;

    if (request == NULL) {
        return;
    }
    if (!parse_number(args[1], &tag) || !parse_number(args[2], &mask) ||
        !parse_number(args[3], &size)) {
        reply("err bad number");
        return;
    }
    if (!buffer_init(&request->buffer, args[4], size)) {
        return;
    }
    request->is_receive = 1;
    params              = receive_params(request);
    request_started(request,
                    ucp_tag_recv_nbx(worker, (void*)(uintptr_t)request->buffer.argument,
                                     request->buffer.count, tag, mask, &params));
}

/* probe TAG MASK keep|take MS */
static void do_probe(char **args)
{
    int                 take = (strcmp(args[2], "take") == 0);
    ucp_tag_recv_info_t info;
    ucp_tag_message_h   message;
    uint64_t            tag, mask, timeout, deadline;

    if (!parse_number(args[0], &tag) || !parse_number(args[1], &mask) ||
        !parse_number(args[3], &timeout)) {
        reply("err bad number");
        return;
    }
    if (take && (held_message != NULL)) {
        reply("err a taken message waits for mrecv");
        return;
    }
    deadline = now_ms() + timeout;
    while ((message = ucp_tag_probe_nb(worker, tag, mask, take, &info)) == NULL) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
        progress_once(0);
    }
    if (take) {
        held_message = message;
    }
    reply("ok 0x%llx %zu", (unsigned long long)info.sender_tag, info.length);
}

/* mrecv REQUEST SIZE LAYOUT */
static void do_mrecv(char **args)
{
    request_t           *request = new_request(args[0]);
    ucp_request_param_t params;
    ucp_tag_message_h   message = held_message;
    uint64_t            size;

    if (request == NULL) {
        return;
    }
    if (message == NULL) {
        reply("err no message was taken by a probe");
        return;
    }
    if (!parse_number(args[1], &size)) {
        reply("err bad number: %s", args[1]);
        return;
    }
    if (!buffer_init(&request->buffer, args[2], size)) {
        return;
    }
    held_message        = NULL;
    request->is_receive = 1;
    params              = receive_params(request);
    request_started(request,
                    ucp_tag_msg_recv_nbx(worker, (void*)(uintptr_t)request->buffer.argument,
                                         request->buffer.count, message, &params));
}

/* wait REQUEST SEED MS */
static void do_wait(char **args)
{
    request_t *request = find_request(args[0]);
    char      verdict[MAX_VERDICT];
    content_t content;
    uint64_t  timeout, deadline;

    if (request == NULL) {
        return;
    }
    if (!parse_content(args[1], &content) || !parse_number(args[2], &timeout)) {
        reply("err bad number");
        return;
    }
    deadline = now_ms() + timeout;
    while (!request->done) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
        progress_once(0);
    }
    if (request->is_fetch && (request->status == UCS_OK)) {
        reply("ok 0 0x%llx %zu same", (unsigned long long)request->result,
              request->info.length);
    } else if (!request->is_receive) {
        reply("ok %d", request->status);
    } else if (request->status != UCS_OK) {
        /* Only what lies outside the buffer is promised to be as it was. */
        reply("ok %d 0x0 0 same", request->status);
    } else {
        buffer_verify(&request->buffer, content, request->info.length, verdict);
        reply("ok 0 0x%llx %zu %s", (unsigned long long)request->info.sender_tag,
              request->info.length, verdict);
    }
    request_release(request);
}

/* cancel REQUEST */
static void do_cancel(char **args)
{
    request_t *request = find_request(args[0]);

    if (request == NULL) {
        return;
    }
    if (!request->done && (request->handle != NULL)) {
        ucp_request_cancel(worker, request->handle);
    }
    reply("ok");
}

/* flush REQUEST EP|worker */
static void do_flush(char **args)
{
    int        whole     = (strcmp(args[1], "worker") == 0);
    endpoint_t *endpoint = whole ? NULL : find_endpoint(args[1]);
    request_t  *request  = (whole || (endpoint != NULL)) ? new_request(args[0]) : NULL;
    ucp_request_param_t params;

    if (request == NULL) {
        return;
    }
    params = send_params(request);
    request_started(request, whole ? ucp_worker_flush_nbx(worker, &params) :
                                     ucp_ep_flush_nbx(endpoint->handle, &params));
}

/* Maps memory of the program for size bytes. */
static ucs_status_t memory_map(memory_t *memory, size_t size)
{
    ucp_mem_map_params_t params = {0};

    buffer_init(&memory->buffer, "contig", size);
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address    = memory->buffer.segment[0].buffer;
    params.length     = size;
    return ucp_mem_map(context, &params, &memory->handle);
}

/* Maps memory that UCX allocates. */
static ucs_status_t memory_allocate(memory_t *memory, size_t size)
{
    void         *storage;
    ucs_status_t status = mapped_storage(size, &memory->handle, &storage);

    if (status == UCS_OK) {
        memory->allocated = 1;
        buffer_init_at(&memory->buffer, "contig", size, storage);
    }
    return status;
}

/* map MEMORY SIZE SEED own|new */
static void do_map(char **args)
{
    memory_t     *memory;
    ucs_status_t status;
    uint64_t     size;
    content_t    content;
    size_t       index, length, i;
    void         *key;
    char         *hex;

    if (!parse_index(args[0], MAX_MEMORIES, &index)) {
        return;
    }
    memory = &memories[index];
    if (memory->handle != NULL) {
        reply("err memory %s is in use", args[0]);
        return;
    }
    if (!parse_number(args[1], &size) || !parse_content(args[2], &content)) {
        reply("err bad number");
        return;
    }
    status = (strcmp(args[3], "new") == 0) ? memory_allocate(memory, size) :
                                             memory_map(memory, size);
    if (status != UCS_OK) {
        memory->handle = NULL;
        reply("err ucp_mem_map: %s", ucs_status_string(status));
        return;
    }
    if (content.seed != 0) {
        buffer_fill(&memory->buffer, content);
    }
    status = ucp_rkey_pack(context, memory->handle, &key, &length);
    if (status != UCS_OK) {
        reply("err ucp_rkey_pack: %s", ucs_status_string(status));
        return;
    }
    hex    = allocate(2 * length);
    hex[0] = '\0';
    for (i = 0; i < length; ++i) {
        sprintf(hex + (2 * i), "%02x", ((const unsigned char*)key)[i]);
    }
    reply("ok 0x%llx %s", (unsigned long long)(uintptr_t)memory->buffer.segment[0].buffer, hex);
    free(hex);
    ucp_rkey_buffer_release(key);
}

static memory_t *find_memory(const char *text)
{
    size_t index;

    if (!parse_index(text, MAX_MEMORIES, &index)) {
        return NULL;
    }
    if (memories[index].handle == NULL) {
        reply("err no memory %s", text);
        return NULL;
    }
    return &memories[index];
}

/* unmap MEMORY */
static void do_unmap(char **args)
{
    memory_t *memory = find_memory(args[0]);

    if (memory != NULL) {
        ucp_mem_unmap(context, memory->handle);
        if (!memory->allocated) {
            free(memory->buffer.storage);
        }
        memset(memory, 0, sizeof(*memory));
        reply("ok");
    }
}

/* check MEMORY SEED LENGTH */
static void do_check(char **args)
{
    memory_t  *memory = find_memory(args[0]);
    content_t content;
    uint64_t  length;
    char      verdict[MAX_VERDICT];

    if (memory == NULL) {
        return;
    }
    if (!parse_content(args[1], &content) || !parse_number(args[2], &length)) {
        reply("err bad number");
        return;
    }
    buffer_verify(&memory->buffer, content, length, verdict);
    reply("ok %s", verdict);
}

/* Returns where a word of a memory is, after a reply if it is nowhere. */
static void *find_word(char **args, uint64_t *size)
{
    memory_t *memory = find_memory(args[0]);
    uint64_t offset;

    if (memory == NULL) {
        return NULL;
    }
    if (!parse_number(args[1], &offset) || !parse_number(args[2], size) ||
        ((*size != 4) && (*size != 8)) || (offset + *size > memory->buffer.size)) {
        reply("err bad number");
        return NULL;
    }
    return (char*)memory->buffer.segment[0].buffer + offset;
}

/* word MEMORY OFFSET SIZE */
static void do_word(char **args)
{
    uint64_t size;
    void     *at = find_word(args, &size);

    if (at != NULL) {
        reply("ok 0x%llx", (size == 4) ? (unsigned long long)*(volatile uint32_t*)at :
                                         (unsigned long long)*(volatile uint64_t*)at);
    }
}

/* setword MEMORY OFFSET SIZE VALUE */
static void do_setword(char **args)
{
    uint64_t size, value;
    void     *at = find_word(args, &size);

    if (at == NULL) {
        return;
    }
    if (!parse_number(args[3], &value)) {
        reply("err bad number: %s", args[3]);
        return;
    }
    if (size == 4) {
        *(volatile uint32_t*)at = (uint32_t)value;
    } else {
        *(volatile uint64_t*)at = value;
    }
    reply("ok");
}

/* unpack KEY EP PACKED */
static void do_unpack(char **args)
{
    endpoint_t    *endpoint = find_endpoint(args[1]);
    ucs_status_t  status;
    unsigned char *packed;
    size_t        index;

    if ((endpoint == NULL) || !parse_index(args[0], MAX_MEMORIES, &index)) {
        return;
    }
    if (keys[index] != NULL) {
        reply("err key %s is in use", args[0]);
        return;
    }
    packed = allocate(strlen(args[2]));
    if (!parse_hex(args[2], packed)) {
        reply("err the key is not hexadecimal");
        free(packed);
        return;
    }
    status = ucp_ep_rkey_unpack(endpoint->handle, packed, &keys[index]);
    free(packed);
    if (status != UCS_OK) {
        keys[index] = NULL;
        reply("err ucp_ep_rkey_unpack: %s", ucs_status_string(status));
        return;
    }
    reply("ok");
}

/* release KEY */
static void do_release(char **args)
{
    size_t index;

    if (!parse_index(args[0], MAX_MEMORIES, &index)) {
        return;
    }
    if (keys[index] != NULL) {
        ucp_rkey_destroy(keys[index]);
        keys[index] = NULL;
    }
    reply("ok");
}

/* What put, get and atomic have in common: REQUEST EP KEY ADDRESS SIZE */
typedef struct {
    endpoint_t *endpoint;
    request_t  *request;
    ucp_rkey_h key;
    uint64_t   address, size;
} access_t;

static int parse_access(char **args, access_t *a)
{
    size_t index;

    a->endpoint = find_endpoint(args[1]);
    a->request  = (a->endpoint == NULL) ? NULL : new_request(args[0]);
    if ((a->request == NULL) || !parse_index(args[2], MAX_MEMORIES, &index)) {
        return 0;
    }
    a->key = keys[index];
    if ((a->key == NULL) || !parse_number(args[3], &a->address) ||
        !parse_number(args[4], &a->size)) {
        reply("err bad key or number");
        return 0;
    }
    return 1;
}

/* put REQUEST EP KEY ADDRESS SIZE SEED */
static void do_put(char **args)
{
    access_t            a;
    ucp_request_param_t params;
    content_t           content;

    if (!parse_access(args, &a)) {
        return;
    }
    if (!parse_content(args[5], &content)) {
        reply("err bad number: %s", args[5]);
        return;
    }
    if (!buffer_init(&a.request->buffer, "contig", a.size)) {
        return;
    }
    buffer_fill(&a.request->buffer, content);
    params = send_params(a.request);
    request_started(a.request,
                    ucp_put_nbx(a.endpoint->handle, a.request->buffer.argument, a.size,
                                a.address, a.key, &params));
}

/* get REQUEST EP KEY ADDRESS SIZE */
static void do_get(char **args)
{
    access_t            a;
    ucp_request_param_t params;

    if (!parse_access(args, &a) ||
        !buffer_init(&a.request->buffer, "contig", a.size)) {
        return;
    }
    a.request->is_receive  = 1;
    a.request->info.length = a.size;
    params                 = send_params(a.request);
    request_started(a.request,
                    ucp_get_nbx(a.endpoint->handle,
                                (void*)(uintptr_t)a.request->buffer.argument, a.size,
                                a.address, a.key, &params));
}

/* atomic REQUEST EP KEY ADDRESS SIZE OP OPERAND REPLY post|fetch */
static void do_atomic(char **args)
{
    static const struct {
        const char      *name;
        ucp_atomic_op_t op;
    } ops[] = {
        {"add", UCP_ATOMIC_OP_ADD}, {"swap", UCP_ATOMIC_OP_SWAP},
        {"cswap", UCP_ATOMIC_OP_CSWAP}, {"and", UCP_ATOMIC_OP_AND},
        {"or", UCP_ATOMIC_OP_OR}, {"xor", UCP_ATOMIC_OP_XOR}
    };
    ucp_request_param_t params;
    access_t            a;
    size_t              i;

    if (!parse_access(args, &a)) {
        return;
    }
    for (i = 0; (i < 6) && (strcmp(ops[i].name, args[5]) != 0); ++i) {
    }
    if ((i == 6) || !parse_number(args[6], &a.request->operand) ||
        !parse_number(args[7], &a.request->result)) {
        reply("err bad operation or number");
        return;
    }
    params               = send_params(a.request);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype      = ucp_dt_make_contig(a.size);
    if (strcmp(args[8], "fetch") == 0) {
        params.op_attr_mask    |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        params.reply_buffer     = &a.request->result;
        a.request->is_fetch     = 1;
        a.request->info.length  = a.size;
        if (a.size == 4) {
            a.request->result &= 0xffffffffu;
        }
    }
    request_started(a.request,
                    ucp_atomic_op_nbx(a.endpoint->handle, ops[i].op, &a.request->operand,
                                      1, a.address, a.key, &params));
}

/* fence */
static void do_fence(char **args)
{
    ucs_status_t status = ucp_worker_fence(worker);

    (void)args;
    if (status != UCS_OK) {
        reply("err ucp_worker_fence: %s", ucs_status_string(status));
    } else {
        reply("ok");
    }
}

/* close REQUEST EP flush|force */
static void do_close(char **args)
{
    endpoint_t          *endpoint = find_endpoint(args[1]);
    request_t           *request  = (endpoint == NULL) ? NULL : new_request(args[0]);
    ucp_request_param_t params;
    ucp_ep_h            handle;

    if (request == NULL) {
        return;
    }
    params = send_params(request);
    if (strcmp(args[2], "force") == 0) {
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        params.flags         = UCP_EP_CLOSE_FLAG_FORCE;
    }
    handle           = endpoint->handle;
    endpoint->handle = NULL;
    request_started(request, ucp_ep_close_nbx(handle, &params));
}

/* failure EP */
static void do_failure(char **args)
{
    size_t index;

    if (parse_index(args[0], MAX_EPS, &index)) {
        reply("ok %d", endpoints[index].failure);
    }
}

/* failed EP MS */
static void do_failed(char **args)
{
    size_t   index;
    uint64_t timeout, deadline;

    if (!parse_index(args[0], MAX_EPS, &index)) {
        return;
    }
    if (!parse_number(args[1], &timeout)) {
        reply("err bad number: %s", args[1]);
        return;
    }
    for (deadline = now_ms() + timeout; endpoints[index].failure == UCS_OK; progress_once(0)) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
    }
    reply("ok %d", endpoints[index].failure);
}

/* pause US */
static void do_pause(char **args)
{
    uint64_t duration, end;
    size_t   i;

    if (!parse_number(args[0], &duration)) {
        reply("err bad number: %s", args[0]);
        return;
    }
    for (end = read_clock(CLOCK_MONOTONIC) + (duration * 1000);
         read_clock(CLOCK_MONOTONIC) < end;) {
        for (i = 0; (i < MAX_WORKERS) && (workers[i] != NULL); ++i) {
            ucp_worker_progress(workers[i]);
        }
    }
    reply("ok %llu", (unsigned long long)read_clock(CLOCK_REALTIME));
}

/* progress MS */
static void do_progress(char **args)
{
    uint64_t duration, end;

    if (!parse_number(args[0], &duration)) {
        reply("err bad number: %s", args[0]);
        return;
    }
    for (end = now_ms() + duration; now_ms() < end;) {
        progress_once(0);
    }
    reply("ok");
}

/* Makes a worker, which tells servers the number in PEER_CLIENT_ID. */
static ucs_status_t new_worker(ucp_worker_h *result)
{
    ucp_worker_params_t params = {0};
    const char          *id    = getenv("PEER_CLIENT_ID");

    if ((id != NULL) && parse_number(id, &params.client_id)) {
        params.field_mask |= UCP_WORKER_PARAM_FIELD_CLIENT_ID;
    }
    return ucp_worker_create(context, &params, result);
}

/* use WORKER */
static void do_use(char **args)
{
    ucs_status_t status = UCS_OK;
    size_t       index;

    if (!parse_index(args[0], MAX_WORKERS, &index)) {
        return;
    }
    if (workers[index] == NULL) {
        status = new_worker(&workers[index]);
    }
    if (status != UCS_OK) {
        workers[index] = NULL;
        reply("err ucp_worker_create: %s", ucs_status_string(status));
        return;
    }
    worker = workers[index];
    reply("ok");
}

static void on_closed(void *handle, ucs_status_t status, void *user_data)
{
    (void)status;
    --*(int*)user_data;
    ucp_request_free(handle);
}

/* Destroys worker 1 as it is. Its requests keep their status, or never get one. */
static void retire_worker(void)
{
    size_t i;

    for (i = 0; i < MAX_MEMORIES; ++i) {
        if (keys[i] != NULL) {
            ucp_rkey_destroy(keys[i]);
            keys[i] = NULL;
        }
    }
    for (i = 0; i < MAX_REQUESTS; ++i) {
        if (requests[i].done && (requests[i].handle != NULL)) {
            ucp_request_free(requests[i].handle);
            requests[i].handle = NULL;
        }
    }
    am_retire();
    ucp_worker_destroy(workers[1]);
    workers[1] = NULL;
    worker     = workers[0];
    for (i = 0; i < MAX_REQUESTS; ++i) {
        requests[i].handle = NULL;
    }
    for (i = 0; i < MAX_EPS; ++i) {
        endpoints[i].handle = NULL;
    }
}

static int has_second_worker(void)
{
    if (workers[1] == NULL) {
        reply("err there is no worker 1");
        return 0;
    }
    return 1;
}

/* retire */
static void do_retire(char **args)
{
    (void)args;
    if (has_second_worker()) {
        retire_worker();
        reply("ok");
    }
}

/* shutdown MS */
static void do_shutdown(char **args)
{
    static int          closing; /* a close may end after its time */
    ucp_request_param_t params = {0};
    ucs_status_ptr_t    result;
    uint64_t            timeout, deadline;
    size_t              i;

    if (!has_second_worker()) {
        return;
    }
    if (!parse_number(args[0], &timeout)) {
        reply("err bad number: %s", args[0]);
        return;
    }
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.send      = on_closed;
    params.user_data    = &closing;
    closing             = 0;
    am_retire();
    for (i = 0; i < MAX_EPS; ++i) {
        if (endpoints[i].handle != NULL) {
            result              = ucp_ep_close_nbx(endpoints[i].handle, &params);
            endpoints[i].handle = NULL;
            closing            += UCS_PTR_IS_PTR(result);
        }
    }
    for (deadline = now_ms() + timeout; closing > 0; progress_once(0)) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
    }
    retire_worker();
    reply("ok");
}

/* forget */
static void do_forget(char **args)
{
    size_t i;

    (void)args;
    if (workers[1] != NULL) {
        reply("err there is worker 1");
        return;
    }
    for (i = 0; i < MAX_REQUESTS; ++i) {
        if (requests[i].used) {
            request_release(&requests[i]);
        }
    }
    am_forget();
    reply("ok");
}

/* hold */
static void do_hold(char **args)
{
    (void)args;
    held = 1;
    reply("ok");
}

static void do_exit(char **args)
{
    size_t i;

    (void)args;
    ucp_dt_destroy(generic_datatype);
    for (i = 0; i < MAX_WORKERS; ++i) {
        if (workers[i] != NULL) {
            ucp_worker_destroy(workers[i]);
        }
    }
    ucp_cleanup(context);
    reply("ok");
    exit(0);
}

static const command_t commands[] = {
    {"address", 0, do_address},
    {"connect", 3, do_connect},
    {"send", 7, do_send},
    {"recv", 5, do_recv},
    {"probe", 4, do_probe},
    {"mrecv", 3, do_mrecv},
    {"wait", 3, do_wait},
    {"cancel", 1, do_cancel},
    {"flush", 2, do_flush},
    {"close", 3, do_close},
    {"map", 4, do_map},
    {"unmap", 1, do_unmap},
    {"check", 3, do_check},
    {"word", 3, do_word},
    {"setword", 4, do_setword},
    {"unpack", 3, do_unpack},
    {"release", 1, do_release},
    {"put", 6, do_put},
    {"get", 5, do_get},
    {"atomic", 9, do_atomic},
    {"fence", 0, do_fence},
    {"failure", 1, do_failure},
    {"failed", 2, do_failed},
    {"pause", 1, do_pause},
    {"progress", 1, do_progress},
    {"use", 1, do_use},
    {"hold", 0, do_hold},
    {"retire", 0, do_retire},
    {"shutdown", 1, do_shutdown},
    {"forget", 0, do_forget},
    {"exit", 0, do_exit},
    {NULL, 0, NULL}
};

static const command_t *const lists[] = {commands, am_commands, stream_commands, conn_commands};

static const command_t *find_command(const char *name)
{
    const command_t *c;
    size_t          i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        for (c = lists[i]; c->name != NULL; ++c) {
            if (strcmp(c->name, name) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

static void run_command(char *line)
{
    const command_t *command;
    char            *args[MAX_ARGS + 1];
    char            *rest  = line;
    size_t          count  = 0;

    while ((count <= MAX_ARGS) && ((args[count] = strtok_r(rest, " ", &rest)) != NULL)) {
        ++count;
    }
    if (count == 0) {
        reply("err empty command");
        return;
    }
    command = find_command(args[0]);
    if (command == NULL) {
        reply("err unknown command: %s", args[0]);
    } else if (count - 1 != command->args) {
        reply("err %s takes %zu arguments, not %zu", args[0], command->args, count - 1);
    } else {
        held = 0;
        command->run(args + 1);
    }
}

/* Reads what is there and runs every whole line. Returns 0 at the end of input. */
static int read_commands(void)
{
    static char   line[MAX_LINE];
    static size_t used;
    ssize_t       count;
    char          *start, *end;

    count = read(STDIN_FILENO, line + used, sizeof(line) - used);
    if (count < 0) {
        return errno == EINTR;
    }
    used += (size_t)count;
    for (start = line; (end = memchr(start, '\n', used)) != NULL; start = end + 1) {
        used -= (size_t)(end + 1 - start);
        *end  = '\0';
        run_command(start);
    }
    memmove(line, start, used);
    if (used == sizeof(line)) {
        reply("err the command is longer than %d bytes", MAX_LINE);
        return 0;
    }
    return count > 0;
}

static void start_ucp(void)
{
    ucp_params_t params = {0};
    ucs_status_t status;

    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                        UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM;
    if (getenv("PEER_NO_AM") == NULL) {
        params.features |= UCP_FEATURE_AM;
    }
    status = ucp_init(&params, NULL, &context);
    if (status != UCS_OK) {
        die("ucp_init", status);
    }
    status = new_worker(&workers[0]);
    worker = workers[0];
    if (status != UCS_OK) {
        die("ucp_worker_create", status);
    }
    status = ucp_dt_create_generic(&generic_ops, NULL, &generic_datatype);
    if (status != UCS_OK) {
        die("ucp_dt_create_generic", status);
    }
}

int main(void)
{
    unsigned major, minor, release;
    int      fd = dup(STDOUT_FILENO);

    /* UCX logs to standard output; only replies may go there. */
    if ((fd < 0) || (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) ||
        ((replies = fdopen(fd, "w")) == NULL)) {
        die("standard output", UCS_ERR_IO_ERROR);
    }
    start_ucp();
    ucp_get_version(&major, &minor, &release);
    reply("ready C %u.%u.%u", major, minor, release);
    for (;;) {
        if ((held || progress_once(1)) && !read_commands()) {
            return 0;
        }
    }
}
