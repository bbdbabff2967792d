/*
 * Makes calls of libibverbs as it is told on standard input, a line each: a name and numbers. Answers with
 * a line of numbers, or "error". Objects are named by the order in which they were made, each kind by itself.
 *
 *     probe ADDRESS [DEVICE]
 *
 * ADDRESS is where its memory is to be; the device is the first one, unless named. It works on port 1.
 */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ARGS = 4096, MAX_LINE = 64 * 1024, MAX_OBJECTS = 64, MAX_WR = 64, MAX_SGE = 32, MEMORY = 1 << 20, PATIENCE = 120 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channels[MAX_OBJECTS];
static struct ibv_cq *cqs[MAX_OBJECTS];
static struct ibv_srq *srqs[MAX_OBJECTS];
static struct ibv_qp *qps[MAX_OBJECTS];
static struct ibv_mr *mrs[MAX_OBJECTS];
static struct ibv_mw *mws[MAX_OBJECTS];
static struct ibv_ah *ahs[MAX_OBJECTS];
static int n_cqs, n_srqs, n_qps, n_mrs, n_mws, n_ahs;
static uint8_t *memory;

static unsigned long long args[MAX_ARGS];
static int n_args, next_arg;

static unsigned long long arg(void) { return next_arg < n_args ? args[next_arg++] : 0; }

static void gid(union ibv_gid *g)
{
    unsigned long long high = arg(), low = arg();

    for (int i = 0; i < 8; i++) {
        g->raw[i]     = high >> (56 - 8 * i);
        g->raw[8 + i] = low >> (56 - 8 * i);
    }
}

static void address(struct ibv_ah_attr *a)
{
    memset(a, 0, sizeof(*a));
    a->port_num       = 1;
    a->is_global      = arg();
    gid(&a->grh.dgid);
    a->grh.sgid_index    = arg();
    a->grh.hop_limit     = arg();
    a->grh.traffic_class = arg();
    a->grh.flow_label    = arg();
    a->dlid              = arg();
    a->sl                = arg();
    a->src_path_bits     = arg();
    a->static_rate       = arg();
}

static int list(struct ibv_sge *sges)
{
    int n = arg();

    for (int i = 0; i < n; i++) {
        struct ibv_mr *mr = mrs[arg()];
        sges[i].addr      = (uintptr_t)memory + arg();
        sges[i].length    = arg();
        sges[i].lkey      = mr->lkey;
    }
    return n;
}

static int up(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 15};
    int ud = qp->qp_type == IBV_QPT_UD, rc = qp->qp_type == IBV_QPT_RC;

    a.qkey = 0x11111111;
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS))) {
        return -1;
    }
    a.qp_state           = IBV_QPS_RTR;
    a.dest_qp_num        = arg();
    a.path_mtu           = IBV_MTU_1024;
    a.max_dest_rd_atomic = a.max_rd_atomic = 4;
    a.min_rnr_timer      = 1;
    a.timeout            = 14;
    a.retry_cnt          = 6;
    a.rnr_retry          = 6;
    address(&a.ah_attr);
    if (ibv_modify_qp(qp, &a, IBV_QP_STATE | (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
                              (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0))) {
        return -1;
    }
    a.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                                      IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static int state(struct ibv_qp *qp)
{
    struct ibv_qp_attr a = {.qp_state = arg()};

    return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static int send_to(struct ibv_qp *qp)
{
    static struct ibv_send_wr wrs[MAX_WR], *bad;
    static struct ibv_sge sges[MAX_WR][MAX_SGE];
    int n = arg();

    memset(wrs, 0, sizeof(wrs));
    for (int i = 0; i < n; i++) {
        struct ibv_send_wr *w = &wrs[i];
        w->next       = i + 1 < n ? w + 1 : NULL;
        w->wr_id      = arg();
        w->opcode     = arg();
        w->send_flags = arg();
        w->sg_list    = sges[i];
        unsigned long long imm = arg(), raddr = arg(), rkey = arg(), compare = arg(), swap = arg();
        unsigned long long where = arg(), qpn = arg(), qkey = arg();
        struct ibv_mw *mw = mws[arg()];
        struct ibv_mw_bind_info bind = {.mr = mrs[arg()]};
        bind.addr            = (uintptr_t)memory + arg();
        bind.length          = arg();
        bind.mw_access_flags = arg();
        w->num_sge           = list(sges[i]);
        switch (w->opcode) {
        case IBV_WR_SEND_WITH_INV:
        case IBV_WR_LOCAL_INV:
            w->invalidate_rkey = imm;
            break;
        case IBV_WR_BIND_MW:
            w->bind_mw.mw        = mw;
            w->bind_mw.rkey      = ibv_inc_rkey(mw->rkey);
            w->bind_mw.bind_info = bind;
            if (bind.length == 0) {
                w->bind_mw.bind_info.mr = NULL;
            }
            break;
        default:
            w->imm_data = htonl(imm);
        }
        if (qp->qp_type == IBV_QPT_UD) {
            w->wr.ud.ah          = ahs[where];
            w->wr.ud.remote_qpn  = qpn;
            w->wr.ud.remote_qkey = qkey;
        } else if (w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            w->wr.atomic.remote_addr = raddr;
            w->wr.atomic.rkey        = rkey;
            w->wr.atomic.compare_add = compare;
            w->wr.atomic.swap        = swap;
        } else {
            w->wr.rdma.remote_addr = raddr;
            w->wr.rdma.rkey        = rkey;
        }
    }
    bad = NULL;
    ibv_post_send(qp, wrs, &bad);
    n = bad ? bad - wrs : n;
    for (int i = 0; i < n; i++) {
        if (wrs[i].opcode == IBV_WR_BIND_MW) {
            wrs[i].bind_mw.mw->rkey = wrs[i].bind_mw.rkey;
        }
    }
    return n;
}

static int receive(struct ibv_qp *qp, struct ibv_srq *srq)
{
    static struct ibv_recv_wr wrs[MAX_WR], *bad;
    static struct ibv_sge sges[MAX_WR][MAX_SGE];
    int n = arg();

    for (int i = 0; i < n; i++) {
        wrs[i].next    = i + 1 < n ? &wrs[i + 1] : NULL;
        wrs[i].wr_id   = arg();
        wrs[i].sg_list = sges[i];
        wrs[i].num_sge = list(sges[i]);
    }
    bad = NULL;
    srq ? ibv_post_srq_recv(srq, wrs, &bad) : ibv_post_recv(qp, wrs, &bad);
    return bad ? bad - wrs : n;
}

static void poll_from(struct ibv_cq *cq)
{
    struct ibv_wc wcs[MAX_WR];
    int n = arg();

    n = ibv_poll_cq(cq, n < MAX_WR ? n : MAX_WR, wcs);
    printf("%d", n);
    for (int i = 0; i < n; i++) {
        struct ibv_wc *w = &wcs[i];
        printf(" %llu %u %u", (unsigned long long)w->wr_id, w->status, w->qp_num);
        if (w->status != IBV_WC_SUCCESS) {
            printf(" %u", w->vendor_err);
            continue;
        }
        printf(" %u", w->opcode);
        if (w->opcode & IBV_WC_RECV) {
            int imm = !!(w->wc_flags & IBV_WC_WITH_IMM), inv = !!(w->wc_flags & IBV_WC_WITH_INV);
            printf(" %u %u %d %d %d %u %u %u %u", w->byte_len, w->src_qp, !!(w->wc_flags & IBV_WC_GRH), imm, inv,
                   imm ? ntohl(w->imm_data) : inv ? w->invalidated_rkey : 0, w->slid, w->sl, w->dlid_path_bits);
        } else if (w->opcode == IBV_WC_RDMA_READ) {
            printf(" %u", w->byte_len);
        }
    }
    printf("\n");
}

static int make_qp(void)
{
    struct ibv_qp_init_attr a = {.qp_type = arg()};

    a.send_cq    = cqs[arg()];
    a.recv_cq    = cqs[arg()];
    int shared   = arg();
    a.srq        = shared ? srqs[shared - 1] : NULL;
    a.sq_sig_all = arg();
    a.cap.max_send_wr     = arg();
    a.cap.max_recv_wr     = arg();
    a.cap.max_send_sge    = arg();
    a.cap.max_recv_sge    = arg();
    a.cap.max_inline_data = arg();
    if (!(qps[n_qps] = ibv_create_qp(pd, &a))) {
        return -1;
    }
    printf("%u %u %u %u %u %u\n", qps[n_qps]->qp_num, a.cap.max_send_wr, a.srq ? 0 : a.cap.max_recv_wr, a.cap.max_send_sge,
           a.srq ? 0 : a.cap.max_recv_sge, a.cap.max_inline_data);
    n_qps++;
    return 0;
}

/* Prints a queue: what it is of, its number, the bytes of an entry and of all, or 0 for what libmlx5 does not say, and
 * the addresses of the entries and of the doorbell record. */
static void queue(int kind, unsigned number, unsigned entry, unsigned n, const volatile void *at, const volatile void *record)
{
    printf(" %d %u %u %u %llu %llu", kind, number, entry, n * entry, (unsigned long long)(uintptr_t)at,
           (unsigned long long)(uintptr_t)record);
}

/* Prints where all queues are, those of completions only if wanted: libmlx5 leaves completions of a queue pair that is
 * gone in a queue that it was asked for. */
static int queues(void)
{
    enum { COMPLETIONS, SHARED, SENDS, RECEIVES };
    struct mlx5dv_obj o;
    int wanted = arg();

    for (int i = 0; wanted && i < n_cqs; i++) {
        struct mlx5dv_cq d = {0};
        o.cq.in  = cqs[i];
        o.cq.out = &d;
        if (mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ)) {
            return -1;
        }
        queue(COMPLETIONS, i, d.cqe_size, d.cqe_cnt, d.buf, d.dbrec);
    }
    for (int i = 0; i < n_srqs; i++) {
        struct mlx5dv_srq d = {0};
        o.srq.in  = srqs[i];
        o.srq.out = &d;
        if (mlx5dv_init_obj(&o, MLX5DV_OBJ_SRQ)) {
            return -1;
        }
        queue(SHARED, i, d.stride, 0, d.buf, d.dbrec);
    }
    for (int i = 0; i < n_qps; i++) {
        struct mlx5dv_qp d = {0};
        if (!qps[i]) {
            continue;
        }
        o.qp.in  = qps[i];
        o.qp.out = &d;
        if (mlx5dv_init_obj(&o, MLX5DV_OBJ_QP)) {
            return -1;
        }
        queue(SENDS, qps[i]->qp_num, d.sq.stride, d.sq.wqe_cnt, d.sq.buf, d.dbrec);
        if (!qps[i]->srq) {
            queue(RECEIVES, qps[i]->qp_num, d.rq.stride, d.rq.wqe_cnt, d.rq.buf, d.dbrec);
        }
    }
    printf("\n");
    return 0;
}

/* Does what a line says. Returns 0 if it has answered, else less than 0 for an error, or 1 more than the answer. */
static int run(const char *name)
{
#define IS(what) (strcmp(name, what) == 0)
    if (IS("mr")) {
        unsigned long long at = arg(), n = arg();
        if (!(mrs[n_mrs] = ibv_reg_mr(pd, memory + at, n, arg()))) {
            return -1;
        }
        printf("%u %u\n", mrs[n_mrs]->lkey, mrs[n_mrs]->rkey);
        n_mrs++;
        return 0;
    }
    if (IS("mw")) {
        if (!(mws[n_mws] = ibv_alloc_mw(pd, IBV_MW_TYPE_2))) {
            return -1;
        }
        printf("%u\n", mws[n_mws++]->rkey);
        return 0;
    }
    if (IS("rkey")) {
        printf("%u\n", mws[arg()]->rkey);
        return 0;
    }
    if (IS("cq")) {
        channels[n_cqs] = ibv_create_comp_channel(ctx);
        if (!(cqs[n_cqs] = ibv_create_cq(ctx, arg(), NULL, channels[n_cqs], 0))) {
            return -1;
        }
        return 1 + cqs[n_cqs++]->cqe;
    }
    if (IS("resize")) {
        struct ibv_cq *cq = cqs[arg()];
        return ibv_resize_cq(cq, arg()) ? -1 : 1 + cq->cqe;
    }
    if (IS("srq")) {
        struct ibv_srq_init_attr a = {.attr.max_wr = arg()};
        a.attr.max_sge = arg();
        return (srqs[n_srqs] = ibv_create_srq(pd, &a)) ? n_srqs++, 1 : -1;
    }
    if (IS("qp")) {
        return make_qp();
    }
    if (IS("ah")) {
        struct ibv_ah_attr a;
        address(&a);
        return (ahs[n_ahs] = ibv_create_ah(pd, &a)) ? n_ahs++, 1 : -1;
    }
    if (IS("up")) {
        return up(qps[arg()]) ? -1 : 1;
    }
    if (IS("state")) {
        return state(qps[arg()]) ? -1 : 1;
    }
    if (IS("close")) {
        int k = arg();
        if (ibv_destroy_qp(qps[k])) {
            return -1;
        }
        qps[k] = NULL;
        return 1;
    }
    if (IS("queues")) {
        return queues();
    }
    if (IS("send")) {
        return 1 + send_to(qps[arg()]);
    }
    if (IS("recv")) {
        return 1 + receive(qps[arg()], NULL);
    }
    if (IS("share")) {
        return 1 + receive(NULL, srqs[arg()]);
    }
    if (IS("poll")) {
        poll_from(cqs[arg()]);
        return 0;
    }
    if (IS("arm")) {
        struct ibv_cq *cq = cqs[arg()];
        return ibv_req_notify_cq(cq, arg()) ? -1 : 1;
    }
    if (IS("event")) {
        int k = arg();
        struct ibv_cq *cq;
        void *context;
        if (ibv_get_cq_event(channels[k], &cq, &context)) {
            return -1;
        }
        ibv_ack_cq_events(cq, 1);
        return 1;
    }
    if (IS("fill")) {
        unsigned long long at = arg(), n = arg(), seed = arg();
        for (unsigned long long i = 0; i < n; i++) {
            memory[at + i] = seed + i + (i >> 8);
        }
        return 1;
    }
    if (IS("sum")) {
        unsigned long long at = arg(), n = arg();
        unsigned sum = 0;
        for (unsigned long long i = 0; i < n; i++) {
            sum = sum * 31 + memory[at + i];
        }
        printf("%u\n", sum);
        return 0;
    }
    return -1;
}

int main(int argc, char **argv)
{
    static char line[MAX_LINE];
    struct ibv_device **devices = ibv_get_device_list(NULL);

    while (argc == 3 && devices && *devices && strcmp(ibv_get_device_name(*devices), argv[2])) {
        devices++;
    }
    if (argc < 2 || argc > 3 || !devices || !*devices || !(ctx = ibv_open_device(*devices)) || !(pd = ibv_alloc_pd(ctx))) {
        fprintf(stderr, "probe: no device\n");
        return 1;
    }
    memory = mmap((void *)(uintptr_t)strtoull(argv[1], NULL, 0), MEMORY, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "probe: the memory is taken\n");
        return 1;
    }
    while (fgets(line, sizeof(line), stdin)) {
        char *at = strchr(line, ' ');
        int r;

        line[strcspn(line, " \n")] = 0;
        n_args = next_arg = 0;
        at = at ? at + 1 : NULL;
        while (at && n_args < MAX_ARGS) {
            char *end;
            args[n_args] = strtoull(at, &end, 0);
            if (end == at) {
                break;
            }
            n_args++;
            at = end;
        }
        alarm(PATIENCE); /* with a device that says nothing it ends, too */
        r = run(line);
        alarm(0);
        if (r < 0) {
            printf("error\n");
        } else if (r > 0) {
            printf("%d\n", r - 1);
        }
        fflush(stdout);
    }
    return 0;
}
