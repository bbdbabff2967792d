/*
 * Active messages. What comes is queued by the handlers and looked at by command:
 * amnext takes the oldest in hand, and others say what becomes of it.
 */
#include "peer.h"

enum { MAX_IDS = 64 };

/* What a handler does with the data. */
typedef enum {
    RECEIVE, /* copies or fetches it */
    KEEP,    /* leaves it where it is */
    REFUSE,  /* gives an error */
    DROP     /* gives it up */
} treatment_t;

typedef struct {
    ucp_worker_h worker;
    unsigned     id;
    treatment_t  mode;
} handler_t;

/* A message that came. */
typedef struct arrival {
    struct arrival  *next;
    const handler_t *handler;
    ucp_ep_h        reply;
    unsigned char   *header;
    size_t          header_length;
    size_t          length;
    int             offered; /* the data is at the sender */
    void            *data;   /* kept: where it is, or UCX's descriptor of it */
    int             done;    /* received: a receive has ended, so */
    ucs_status_t    status;
    void            *handle; /* UCP's request for that, or NULL */
    buffer_t        buffer;
} arrival_t;

static handler_t handlers[MAX_IDS];
static arrival_t *first, **last = &first; /* in the order of their handlers' calls */
static arrival_t *hand;                   /* taken by amnext */

static void on_fetched(void *handle, ucs_status_t status, size_t length, void *user_data)
{
    arrival_t *a = user_data;

    (void)handle;
    (void)length;
    a->status = status;
    a->done   = 1;
}

/* Receives data into a new buffer. */
static void receive(arrival_t *a, void *data)
{
    ucp_request_param_t params = {0};
    void                *result;

    buffer_init(&a->buffer, "contig", a->length);
    if (!a->offered) {
        memcpy(a->buffer.segment[0].buffer, data, a->length);
        a->done = 1;
        return;
    }
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv_am   = on_fetched;
    params.user_data    = a;
    result = ucp_am_recv_data_nbx(a->handler->worker, data, a->buffer.segment[0].buffer,
                                  a->length, &params);
    if (UCS_PTR_IS_PTR(result)) {
        a->handle = result;
    } else {
        a->status = UCS_PTR_STATUS(result);
        a->done   = 1;
    }
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length,
                               void *data, size_t length, const ucp_am_recv_param_t *param)
{
    const handler_t *handler = arg;
    arrival_t       *a       = allocate(sizeof(*a));

    memset(a, 0, sizeof(*a));
    a->handler       = handler;
    a->length        = length;
    a->offered       = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    a->header        = allocate(header_length);
    a->header_length = header_length;
    if (header_length > 0) {
        memcpy(a->header, header, header_length);
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        a->reply = param->reply_ep;
    }
    *last = a;
    last  = &a->next;

    switch (handler->mode) {
    case RECEIVE:
        receive(a, data);
        return UCS_OK;
    case KEEP:
        if (!(param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA))) {
            a->status = UCS_ERR_INVALID_PARAM; /* not as promised */
            return UCS_OK;
        }
        a->data = data;
        return UCS_INPROGRESS;
    case REFUSE:
        return a->offered ? UCS_ERR_OUT_OF_RANGE : UCS_OK;
    default:
        return UCS_OK;
    }
}

/* handle ID receive|keep|refuse|drop|none */
static void do_handle(char **args)
{
    static const char *const modes[] = {"receive", "keep", "refuse", "drop"};
    ucp_am_handler_param_t   params  = {0};
    ucs_status_t             status;
    size_t                   id;
    unsigned                 mode;

    if (!parse_index(args[0], MAX_IDS, &id)) {
        return;
    }
    for (mode = 0; (mode < 4) && (strcmp(args[1], modes[mode]) != 0); ++mode) {
    }
    if ((mode == 4) && (strcmp(args[1], "none") != 0)) {
        reply("err bad mode: %s", args[1]);
        return;
    }
    handlers[id].worker = worker;
    handlers[id].id     = (unsigned)id;
    handlers[id].mode   = mode;
    params.field_mask   = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    params.id           = (unsigned)id;
    params.flags        = (mode == KEEP) ? UCP_AM_FLAG_PERSISTENT_DATA : 0;
    params.cb           = (mode < 4) ? on_message : NULL;
    params.arg          = &handlers[id];
    status              = ucp_worker_set_am_recv_handler(worker, &params);
    if (status != UCS_OK) {
        reply("err ucp_worker_set_am_recv_handler: %s", ucs_status_string(status));
        return;
    }
    reply("ok");
}

/* amlimit */
static void do_amlimit(char **args)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    ucs_status_t      status;

    (void)args;
    status = ucp_worker_query(worker, &attr);
    if (status != UCS_OK) {
        reply("err ucp_worker_query: %s", ucs_status_string(status));
        return;
    }
    reply("ok %zu", attr.max_am_header);
}

/* Adds to flags what text, words with commas between them, asks for, and to copies
 * if the header is to be copied. */
static int parse_flags(char *text, uint64_t *flags, int *copies)
{
    char *word;

    for (; (word = strtok_r(text, ",", &text)) != NULL;) {
        if (strcmp(word, "reply") == 0) {
            *flags |= UCP_AM_SEND_FLAG_REPLY;
        } else if (strcmp(word, "eager") == 0) {
            *flags |= UCP_AM_SEND_FLAG_EAGER;
        } else if (strcmp(word, "rndv") == 0) {
            *flags |= UCP_AM_SEND_FLAG_RNDV;
        } else if (strcmp(word, "copy") == 0) {
            *copies = 1;
        } else if (strcmp(word, "plain") != 0) {
            return 0;
        }
    }
    return 1;
}

/* am REQUEST EP ID HEADER SIZE SEED LAYOUT FLAGS */
static void do_am(char **args)
{
    endpoint_t          *endpoint = find_endpoint(args[1]);
    request_t           *request  = (endpoint == NULL) ? NULL : new_request(args[0]);
    uint64_t            flags     = 0;
    int                 copies    = 0;
    ucp_request_param_t params;
    ucs_status_ptr_t    result;
    uint64_t            id, header, size;
    content_t           content;

    if (request == NULL) {
        return;
    }
    if (!parse_number(args[2], &id) || !parse_number(args[3], &header) ||
        !parse_number(args[4], &size) || !parse_content(args[5], &content) ||
        !parse_flags(args[7], &flags, &copies)) {
        reply("err bad number or flag");
        return;
    }
    if (!buffer_init(&request->buffer, args[6], size)) {
        return;
    }
    buffer_fill(&request->buffer, content);
    content.offset  += size;
    request->header  = allocate(header);
    pattern_fill(request->header, header, content);
    params               = send_params(request);
    params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    params.flags         = flags;
    if (copies) {
#if UCP_API_VERSION >= UCP_VERSION(1, 14)
        params.flags |= UCP_AM_SEND_FLAG_COPY_HEADER;
#else
        request_started(request, UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED));
        return;
#endif
    }
    result = ucp_am_send_nbx(endpoint->handle, (unsigned)id, request->header, header,
                             request->buffer.argument, request->buffer.count, &params);
    if (copies) {
        memset(request->header, FILL, header);
    }
    request_started(request, result);
}

/* amnext EP SEED MS */
static void do_amnext(char **args)
{
    char      verdict[MAX_VERDICT];
    size_t    index;
    content_t content;
    uint64_t  timeout, deadline;
    arrival_t *a;

    if (!parse_index(args[0], MAX_EPS, &index)) {
        return;
    }
    if (!parse_content(args[1], &content) || !parse_number(args[2], &timeout)) {
        reply("err bad number");
        return;
    }
    if (hand != NULL) {
        reply("err there is a message in hand");
        return;
    }
    for (deadline = now_ms() + timeout; first == NULL; progress_once(0)) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
    }
    hand = a = first;
    first    = a->next;
    if (first == NULL) {
        last = &first;
    }
    if (a->reply != NULL) {
        endpoints[index].handle = a->reply;
        endpoints[index].worker = a->handler->worker;
    }
    content.offset += a->length;
    pattern_verify(a->header, a->header_length, content, verdict);
    reply("ok %u %zu %zu %s %s %s", a->handler->id, a->header_length, a->length,
          a->offered ? "offered" : "here", (a->reply != NULL) ? "reply" : "plain", verdict);
}

static arrival_t *in_hand(void)
{
    if (hand == NULL) {
        reply("err there is no message in hand");
    }
    return hand;
}

/* Gives up the message in hand, whose data UCX has got back. */
static void give_up(void)
{
    if (hand->handle != NULL) {
        ucp_request_free(hand->handle);
    }
    buffer_release(&hand->buffer);
    free(hand->header);
    free(hand);
    hand = NULL;
}

/* amdata SEED MS */
static void do_amdata(char **args)
{
    arrival_t *a = in_hand();
    char      verdict[MAX_VERDICT];
    content_t content;
    uint64_t  timeout, deadline;

    if (a == NULL) {
        return;
    }
    if (!parse_content(args[0], &content) || !parse_number(args[1], &timeout)) {
        reply("err bad number");
        return;
    }
    if ((a->data == NULL) ? (a->buffer.storage == NULL) : a->offered) {
        reply("err there is no data");
        return;
    }
    for (deadline = now_ms() + timeout; (a->data == NULL) && !a->done; progress_once(0)) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
    }
    if (a->data != NULL) {
        pattern_verify(a->data, a->length, content, verdict);
        ucp_am_data_release(a->handler->worker, a->data);
    } else if (a->status == UCS_OK) {
        buffer_verify(&a->buffer, content, a->length, verdict);
    } else {
        snprintf(verdict, sizeof(verdict), "same");
    }
    reply("ok %d 0x0 %zu %s", a->status, a->length, verdict);
    give_up();
}

static void on_received(void *handle, ucs_status_t status, size_t length, void *user_data)
{
    request_t *request = user_data;

    (void)handle;
    request->status      = status;
    request->info.length = length;
    request->done        = 1;
}

/* amrecv REQUEST SIZE LAYOUT */
static void do_amrecv(char **args)
{
    arrival_t           *a       = in_hand();
    request_t           *request = (a == NULL) ? NULL : new_request(args[0]);
    ucp_request_param_t params;
    uint64_t            size;

    if (request == NULL) {
        return;
    }
    if ((a->data == NULL) || !parse_number(args[1], &size)) {
        reply("err no kept data, or a bad number");
        return;
    }
    if (!buffer_init(&request->buffer, args[2], size)) {
        return;
    }
    request->is_receive  = 1;
    params               = send_params(request);
    params.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    params.cb.recv_am    = on_received;
    request_started(request, ucp_am_recv_data_nbx(a->handler->worker, a->data,
                                                  (void*)(uintptr_t)request->buffer.argument,
                                                  request->buffer.count, &params));
    give_up();
}

/* amdrop */
static void do_amdrop(char **args)
{
    arrival_t *a = in_hand();

    (void)args;
    if (a == NULL) {
        return;
    }
    if (a->data != NULL) {
        ucp_am_data_release(a->handler->worker, a->data);
    }
    give_up();
    reply("ok");
}

static void retire(arrival_t *a)
{
    if (a->data != NULL) {
        ucp_am_data_release(a->handler->worker, a->data);
        a->data = NULL;
    }
    if (a->done && (a->handle != NULL)) {
        ucp_request_free(a->handle);
    }
    a->handle = NULL;
}

/* Gives UCX back what it has in messages that have come. */
void am_retire(void)
{
    arrival_t *a;

    for (a = first; a != NULL; a = a->next) {
        retire(a);
    }
    if (hand != NULL) {
        retire(hand);
    }
}

/* Gives up messages of a worker that has gone. */
void am_forget(void)
{
    while ((hand != NULL) || (first != NULL)) {
        if (hand == NULL) {
            hand  = first;
            first = hand->next;
        }
        hand->handle = NULL;
        give_up();
    }
    last = &first;
}

const command_t am_commands[] = {
    {"handle", 2, do_handle},
    {"amlimit", 0, do_amlimit},
    {"am", 8, do_am},
    {"amnext", 3, do_amnext},
    {"amdata", 2, do_amdata},
    {"amrecv", 3, do_amrecv},
    {"amdrop", 0, do_amdrop},
    {NULL, 0, NULL}
};
