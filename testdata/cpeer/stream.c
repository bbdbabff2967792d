/*
 * Streams, read in both forms: into memory of ours, and where the bytes are.
 */
#include "peer.h"

/* ssend REQUEST EP SIZE SEED LAYOUT */
static void do_ssend(char **args)
{
    endpoint_t          *endpoint = find_endpoint(args[1]);
    request_t           *request  = (endpoint == NULL) ? NULL : new_request(args[0]);
    ucp_request_param_t params;
    uint64_t            size;
    content_t           content;

    if (request == NULL) {
        return;
    }
    if (!parse_number(args[2], &size) || !parse_content(args[3], &content)) {
        reply("err bad number");
        return;
    }
    if (!buffer_init(&request->buffer, args[4], size)) {
        return;
    }
    buffer_fill(&request->buffer, content);
    params = send_params(request);
    request_started(request, ucp_stream_send_nbx(endpoint->handle, request->buffer.argument,
                                                 request->buffer.count, &params));
}

static void on_received(void *handle, ucs_status_t status, size_t length, void *user_data)
{
    request_t *request = user_data;

    (void)handle;
    request->status      = status;
    request->info.length = length;
    request->done        = 1;
}

/* srecv REQUEST EP SIZE LAYOUT some|all */
static void do_srecv(char **args)
{
    endpoint_t          *endpoint = find_endpoint(args[1]);
    request_t           *request  = (endpoint == NULL) ? NULL : new_request(args[0]);
    ucp_request_param_t params;
    ucs_status_ptr_t    result;
    uint64_t            size;
    size_t              length = 0;

    if (request == NULL) {
        return;
    }
    if (!parse_number(args[2], &size)) {
        reply("err bad number: %s", args[2]);
        return;
    }
    if (!buffer_init(&request->buffer, args[3], size)) {
        return;
    }
    request->is_receive   = 1;
    params                = send_params(request);
    params.cb.recv_stream = on_received;
    if (strcmp(args[4], "all") == 0) {
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        params.flags         = UCP_STREAM_RECV_FLAG_WAITALL;
    }
    result = ucp_stream_recv_nbx(endpoint->handle, (void*)(uintptr_t)request->buffer.argument,
                                 request->buffer.count, &length, &params);
    if (result == NULL) {
        request->info.length = length;
    }
    request_started(request, result);
}

/* sdata EP SEED MS */
static void do_sdata(char **args)
{
    endpoint_t       *endpoint = find_endpoint(args[0]);
    char             verdict[MAX_VERDICT];
    ucs_status_ptr_t data;
    content_t        content;
    uint64_t         timeout, deadline;
    size_t           length;

    if (endpoint == NULL) {
        return;
    }
    if (!parse_content(args[1], &content) || !parse_number(args[2], &timeout)) {
        reply("err bad number");
        return;
    }
    deadline = now_ms() + timeout;
    while ((data = ucp_stream_recv_data_nb(endpoint->handle, &length)) == NULL) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
        progress_once(0);
    }
    if (UCS_PTR_IS_ERR(data)) {
        reply("ok %d 0x0 0 same", UCS_PTR_STATUS(data));
        return;
    }
    pattern_verify(data, length, content, verdict);
    ucp_stream_data_release(endpoint->handle, data);
    reply("ok 0 0x0 %zu %s", length, verdict);
}

/* spoll MS */
static void do_spoll(char **args)
{
    ucp_stream_poll_ep_t ready[MAX_EPS];
    char                 list[MAX_EPS * 4 + 1] = "";
    uint64_t             timeout, deadline;
    ssize_t              count, i;

    if (!parse_number(args[0], &timeout)) {
        reply("err bad number: %s", args[0]);
        return;
    }
    deadline = now_ms() + timeout;
    while ((count = ucp_stream_worker_poll(worker, ready, MAX_EPS, 0)) == 0) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
        progress_once(0);
    }
    if (count < 0) {
        reply("err ucp_stream_worker_poll: %s", ucs_status_string((ucs_status_t)count));
        return;
    }
    for (i = 0; i < count; ++i) {
        sprintf(list + strlen(list), " %td", (endpoint_t*)ready[i].user_data - endpoints);
    }
    reply("ok%s", list);
}

const command_t stream_commands[] = {
    {"ssend", 5, do_ssend},
    {"srecv", 5, do_srecv},
    {"sdata", 3, do_sdata},
    {"spoll", 1, do_spoll},
    {NULL, 0, NULL}
};
