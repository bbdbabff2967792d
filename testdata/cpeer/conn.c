/*
 * Listeners, and connections by socket address. Clients wait in a queue until
 * commands say what becomes of them.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { MAX_SOCKET_ADDRESS = 64 };

typedef struct client {
    struct client      *next;
    ucp_conn_request_h request;
} client_t;

static ucp_listener_h     listener;
static client_t           *first, **last = &first; /* in the order in which they came */
static ucp_conn_request_h hand;                    /* taken by client */

/* Reads ADDRESS:PORT, with brackets around an address of IPv6. */
static int parse_address(const char *text, struct sockaddr_storage *result, socklen_t *length)
{
    struct sockaddr_in  *v4  = (struct sockaddr_in*)result;
    struct sockaddr_in6 *v6  = (struct sockaddr_in6*)result;
    const char          *end = strrchr(text, ':');
    char                host[INET6_ADDRSTRLEN];
    uint64_t            port;
    size_t              count;

    memset(result, 0, sizeof(*result));
    if ((end == NULL) || !parse_number(end + 1, &port) || (port > UINT16_MAX)) {
        return 0;
    }
    if (*text == '[') {
        ++text;
        --end;
    }
    count = (size_t)(end - text);
    if (count >= sizeof(host)) {
        return 0;
    }
    memcpy(host, text, count);
    host[count] = '\0';
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port   = htons((uint16_t)port);
        *length        = sizeof(*v4);
        return 1;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port   = htons((uint16_t)port);
    *length         = sizeof(*v6);
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static const char *format_address(const struct sockaddr_storage *address,
                                  char text[MAX_SOCKET_ADDRESS])
{
    const struct sockaddr_in  *v4 = (const struct sockaddr_in*)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6*)address;
    char                      host[INET6_ADDRSTRLEN];

    if (address->ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        snprintf(text, MAX_SOCKET_ADDRESS, "%s:%u", host, ntohs(v4->sin_port));
    } else {
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        snprintf(text, MAX_SOCKET_ADDRESS, "[%s]:%u", host, ntohs(v6->sin6_port));
    }
    return text;
}

static void on_client(ucp_conn_request_h request, void *arg)
{
    client_t *client = allocate(sizeof(*client));

    (void)arg;
    client->next    = NULL;
    client->request = request;
    *last           = client;
    last            = &client->next;
}

/* listen ADDRESS:PORT */
static void do_listen(char **args)
{
    ucp_listener_params_t   params = {0};
    ucp_listener_attr_t     attr   = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    struct sockaddr_storage address;
    char                    text[MAX_SOCKET_ADDRESS];
    ucs_status_t            status;

    if (listener != NULL) {
        reply("err there is a listener");
        return;
    }
    if (!parse_address(args[0], &address, &params.sockaddr.addrlen)) {
        reply("err bad address: %s", args[0]);
        return;
    }
    params.field_mask      = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                             UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr   = (const struct sockaddr*)&address;
    params.conn_handler.cb = on_client;
    status                 = ucp_listener_create(worker, &params, &listener);
    if (status != UCS_OK) {
        listener = NULL;
        reply("err ucp_listener_create: %s", ucs_status_string(status));
        return;
    }
    status = ucp_listener_query(listener, &attr);
    if (status != UCS_OK) {
        reply("err ucp_listener_query: %s", ucs_status_string(status));
        return;
    }
    reply("ok %s", format_address(&attr.sockaddr, text));
}

/* unlisten */
static void do_unlisten(char **args)
{
    (void)args;
    if (listener == NULL) {
        reply("err there is no listener");
        return;
    }
    ucp_listener_destroy(listener);
    listener = NULL;
    reply("ok");
}

/* dial EP none|peer ADDRESS:PORT plain|id */
static void do_dial(char **args)
{
    endpoint_t              *endpoint = new_endpoint(args[0]);
    ucp_ep_params_t         params    = {0};
    struct sockaddr_storage address;

    if (endpoint == NULL) {
        return;
    }
    if (!parse_address(args[2], &address, &params.sockaddr.addrlen)) {
        reply("err bad address: %s", args[2]);
        return;
    }
    params.field_mask    = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.flags         = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr*)&address;
    if (strcmp(args[3], "id") == 0) {
        params.flags |= UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID;
    }
    endpoint_create(endpoint, &params, args[1]);
}

/* client MS */
static void do_client(char **args)
{
    ucp_conn_request_attr_t attr = {.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR};
    ucp_conn_request_attr_t id   = {.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID};
    char                    text[MAX_SOCKET_ADDRESS];
    uint64_t                timeout, deadline;
    client_t                *client;
    ucs_status_t            status;

    if (!parse_number(args[0], &timeout)) {
        reply("err bad number: %s", args[0]);
        return;
    }
    if (hand != NULL) {
        reply("err there is a client in hand");
        return;
    }
    for (deadline = now_ms() + timeout; first == NULL; progress_once(0)) {
        if (now_ms() > deadline) {
            reply("timeout");
            return;
        }
    }
    client = first;
    hand   = client->request;
    first  = client->next;
    if (first == NULL) {
        last = &first;
    }
    free(client);
    status = ucp_conn_request_query(hand, &attr);
    if (status != UCS_OK) {
        reply("err ucp_conn_request_query: %s", ucs_status_string(status));
        return;
    }
    if (ucp_conn_request_query(hand, &id) != UCS_OK) {
        id.client_id = 0; /* it has not told one */
    }
    reply("ok %s 0x%llx", format_address(&attr.client_address, text),
          (unsigned long long)id.client_id);
}

static ucp_conn_request_h take(void)
{
    ucp_conn_request_h request = hand;

    if (request == NULL) {
        reply("err there is no client in hand");
    }
    hand = NULL;
    return request;
}

/* accept EP none|peer */
static void do_accept(char **args)
{
    endpoint_t      *endpoint = new_endpoint(args[0]);
    ucp_ep_params_t params    = {0};

    if ((endpoint == NULL) || ((params.conn_request = take()) == NULL)) {
        return;
    }
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    endpoint_create(endpoint, &params, args[1]);
}

/* reject */
static void do_reject(char **args)
{
    ucp_conn_request_h request = take();
    ucs_status_t       status;

    (void)args;
    if (request == NULL) {
        return;
    }
    status = ucp_listener_reject(listener, request);
    if (status != UCS_OK) {
        reply("err ucp_listener_reject: %s", ucs_status_string(status));
        return;
    }
    reply("ok");
}

/* sockets EP */
static void do_sockets(char **args)
{
    endpoint_t    *endpoint = find_endpoint(args[0]);
    ucp_ep_attr_t attr      = {0};
    char          local[MAX_SOCKET_ADDRESS], remote[MAX_SOCKET_ADDRESS];
    ucs_status_t  status;

    if (endpoint == NULL) {
        return;
    }
    attr.field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR;
    status          = ucp_ep_query(endpoint->handle, &attr);
    if (status != UCS_OK) {
        reply("err ucp_ep_query: %s", ucs_status_string(status));
        return;
    }
    reply("ok %s %s", format_address(&attr.local_sockaddr, local),
          format_address(&attr.remote_sockaddr, remote));
}

const command_t conn_commands[] = {
    {"listen", 1, do_listen},
    {"unlisten", 0, do_unlisten},
    {"dial", 4, do_dial},
    {"client", 1, do_client},
    {"accept", 2, do_accept},
    {"reject", 0, do_reject},
    {"sockets", 1, do_sockets},
    {NULL, 0, NULL}
};
