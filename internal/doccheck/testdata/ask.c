/* The functions that docs/from-c.md shows. */
#include <ucp/api/ucp.h>

ucs_status_t ask(ucp_worker_h worker, ucp_ep_h ep, void *buf, size_t size, size_t *length);

static ucs_status_t finish(ucp_worker_h worker, ucs_status_ptr_t req, ucp_tag_recv_info_t *info)
{
    ucs_status_t status = UCS_PTR_STATUS(req);
    if (!UCS_PTR_IS_PTR(req))
        return status;
    do {
        ucp_worker_progress(worker);
        status = info ? ucp_tag_recv_request_test(req, info) : ucp_request_check_status(req);
    } while (status == UCS_INPROGRESS);
    ucp_request_free(req);
    return status;
}

ucs_status_t ask(ucp_worker_h worker, ucp_ep_h ep, void *buf, size_t size, size_t *length)
{
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t send = {0}, recv = {.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO, .recv_info.tag_info = &info};
    ucs_status_t status = finish(worker, ucp_tag_send_nbx(ep, "question", 8, 1, &send), NULL);
    if (status == UCS_OK)
        status = finish(worker, ucp_tag_recv_nbx(worker, buf, size, 2, ~0ull, &recv), &info);
    *length = info.length;
    return status;
}
