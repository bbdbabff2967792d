/* Hello in C, the twin of the program in Go: a client sends a name to a server that it finds
 * by socket address, and gets a greeting, by active messages. Any two go together.
 *
 *   hello 127.0.0.1 13337         a server, for one client; port 0 is any, which is printed
 *   hello 127.0.0.1 13337 NAME    a client */

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { ID_NAME = 1, ID_GREETING = 2, LONGEST = 128 };

static ucp_worker_h worker;
static ucp_ep_h peer;
static int over;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "hello: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);
    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
            ucp_worker_progress(worker);
        ucp_request_free(request);
    }
    check(status, what);
}

static void on_error(void *is_client, ucp_ep_h ep, ucs_status_t status)
{
    if (is_client)
        check(status, "connection");
    over = 1; /* the server's client has left */
}

static ucs_status_t on_name(void *arg, const void *header, size_t length, void *data, size_t n,
                            const ucp_am_recv_param_t *param)
{
    static char greeting[LONGEST + 32]; /* of the one client, who asks once */
    ucp_request_param_t none = {0};
    ucs_status_ptr_t request;
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) || length > LONGEST || greeting[0] != 0)
        return UCS_OK;
    n = snprintf(greeting, sizeof(greeting), "hello %.*s, this is C", (int)length, (const char *)header);
    request = ucp_am_send_nbx(param->reply_ep, ID_GREETING, greeting, n, NULL, 0, &none);
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request); /* nobody waits for it */
    return UCS_OK;
}

static ucs_status_t on_greeting(void *arg, const void *header, size_t length, void *data, size_t n,
                                const ucp_am_recv_param_t *param)
{
    printf("%.*s\n", (int)length, (const char *)header);
    over = 1;
    return UCS_OK;
}

static void on_connect(ucp_conn_request_h request, void *arg)
{
    ucp_ep_params_t p = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                       UCP_EP_PARAM_FIELD_ERR_HANDLER,
                         .conn_request = request, .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler.cb = on_error};
    if (peer == NULL)
        check(ucp_ep_create(worker, &p, &peer), "accept");
}

static void serve(ucs_sock_addr_t at)
{
    ucp_listener_params_t p = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                               .sockaddr = at, .conn_handler.cb = on_connect};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_listener_h listener;
    check(ucp_listener_create(worker, &p, &listener), "listen");
    check(ucp_listener_query(listener, &attr), "listen");
    printf("port %d\n", ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port));
    fflush(stdout);
    while (!over)
        ucp_worker_progress(worker);
    finish(ucp_ep_close_nbx(peer, &force), "close");
    ucp_listener_destroy(listener);
}

static void greet(ucs_sock_addr_t at, const char *name)
{
    ucp_ep_params_t p = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                         .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .sockaddr = at,
                         .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {on_error, &peer}};
    ucp_request_param_t none = {0}, reply = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY};
    check(ucp_ep_create(worker, &p, &peer), "connect");
    finish(ucp_am_send_nbx(peer, ID_NAME, name, strlen(name), NULL, 0, &reply), "send");
    while (!over)
        ucp_worker_progress(worker);
    finish(ucp_ep_close_nbx(peer, &none), "close");
}

int main(int argc, char **argv)
{
    ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t h = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB};
    struct sockaddr_in at = {.sin_family = AF_INET};
    ucp_context_h context;
    if (argc < 3 || argc > 4 || inet_pton(AF_INET, argv[1], &at.sin_addr) != 1) {
        fprintf(stderr, "usage: hello ADDRESS PORT [NAME]\n");
        return 2;
    }
    at.sin_port = htons(atoi(argv[2]));
    h.id = argc == 3 ? ID_NAME : ID_GREETING;
    h.cb = argc == 3 ? on_name : on_greeting;
    check(ucp_init(&features, NULL, &context), "context");
    check(ucp_worker_create(context, &single, &worker), "worker");
    check(ucp_worker_set_am_recv_handler(worker, &h), "handler");
    if (argc == 3)
        serve((ucs_sock_addr_t){(struct sockaddr *)&at, sizeof(at)});
    else
        greet((ucs_sock_addr_t){(struct sockaddr *)&at, sizeof(at)}, argv[3]);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
