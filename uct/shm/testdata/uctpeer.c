/* A peer at the level of UCT, for c_test.go: it reads commands from its input,
 * one a line, and answers each with one line.
 *
 * usage: uctpeer posix|sysv, builds with C UCX 1.13 to 1.22
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uct/api/uct.h>
#include <ucs/async/async_fwd.h>

enum { SHORT_ID = 5, BCOPY_ID = 6, MEMORY = 65536 };

static ucs_async_context_t *async;
static uct_worker_h worker;
static uct_component_h component;
static uct_md_h md;
static uct_md_attr_t md_attr;
static uct_iface_h iface;
static uct_iface_attr_t attr;
static uct_ep_h ep;
static uct_allocated_memory_t mem;
static uct_rkey_bundle_t rkey;
static unsigned long remote;
static unsigned long received, wrong;
static void *kept[4096];
static int n_kept, keep;

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        printf("error %s: %s\n", what, ucs_status_string(status));
        fflush(stdout);
        exit(1);
    }
}

static void hex(const void *p, size_t n)
{
    const unsigned char *b = p;

    if (n == 0) {
        printf("-");
    }
    while (n--) {
        printf("%02x", *b++);
    }
}

static size_t unhex(const char *s, void *p)
{
    unsigned char *b = p;
    size_t n         = 0;
    unsigned v;

    while (sscanf(s, "%2x", &v) == 1) {
        b[n++] = v;
        s     += 2;
    }
    return n;
}

/* The message with number seq: seq, then bytes that count up from it. */
static void fill(unsigned char *b, size_t n, unsigned long seq)
{
    size_t i;

    memcpy(b, &seq, 8);
    for (i = 8; i < n; i++) {
        b[i] = seq + i;
    }
}

static ucs_status_t handler(void *arg, void *data, size_t length, unsigned flags)
{
    static unsigned char want[65536];

    fill(want, length, received);
    wrong += memcmp(want, data, length) != 0;
    received++;
    if (arg != NULL && keep > 0 && (flags & UCT_CB_PARAM_FLAG_DESC)) {
        keep--;
        kept[n_kept++] = data;
        return UCS_INPROGRESS;
    }
    return UCS_OK;
}

static size_t pack(void *dest, void *arg)
{
    size_t *a = arg;

    fill(dest, a[0], a[1]);
    return a[0];
}

static void open_all(const char *tl)
{
    uct_component_h *components;
    uct_component_attr_t cattr;
    uct_md_config_t *md_config;
    uct_iface_config_t *config;
    uct_iface_params_t params;
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t alloc;
    unsigned i, n;

    must(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async), "async");
    must(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &worker), "worker");
    must(uct_query_components(&components, &n), "components");
    for (i = 0; i < n; i++) {
        cattr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
        must(uct_component_query(components[i], &cattr), "component");
        if (!strcmp(cattr.name, tl)) {
            component = components[i];
        }
    }
    must(uct_md_config_read(component, NULL, NULL, &md_config), "md config");
    must(uct_md_open(component, tl, md_config, &md), "md");
    must(uct_md_query(md, &md_attr), "md query");
    must(uct_md_iface_config_read(md, tl, NULL, NULL, &config), "config");
    memset(&params, 0, sizeof(params));
    params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
    params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name  = tl;
    params.mode.device.dev_name = "memory";
    must(uct_iface_open(md, worker, &params, config, &iface), "iface");
    must(uct_iface_query(iface, &attr), "query");
    uct_iface_set_am_handler(iface, SHORT_ID, handler, NULL, 0);
    uct_iface_set_am_handler(iface, BCOPY_ID, handler, iface, 0);
    uct_iface_progress_enable(iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);

    memset(&alloc, 0, sizeof(alloc));
    alloc.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_FLAGS;
    alloc.flags      = UCT_MD_MEM_ACCESS_ALL;
    alloc.mds.mds    = &md;
    alloc.mds.count  = 1;
    must(uct_mem_alloc(MEMORY, &method, 1, &alloc, &mem), "alloc");
}

static void address(void)
{
    unsigned char dev[256], addr[4096], key[4096];

    memset(key, 0, sizeof(key));
    must(uct_iface_get_device_address(iface, (void*)dev), "device address");
    must(uct_iface_get_address(iface, (void*)addr), "address");
    must(uct_md_mkey_pack(md, mem.memh, key), "key");
    hex(dev, attr.device_addr_len);
    printf(" ");
    hex(addr, attr.iface_addr_len);
    printf(" ");
    hex(key, md_attr.rkey_packed_size);
    printf(" %lu\n", (unsigned long)mem.address);
}

static void connect_to(const char *dev_hex, const char *addr_hex)
{
    static unsigned char dev[256], addr[4096];
    uct_ep_params_t params;

    memset(dev, 0, sizeof(dev));
    memset(addr, 0, sizeof(addr));
    unhex(dev_hex, dev);
    unhex(addr_hex, addr);
    if (!uct_iface_is_reachable(iface, (void*)dev, (void*)addr)) {
        printf("unreachable\n");
        return;
    }
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
    params.iface      = iface;
    params.dev_addr   = (void*)dev;
    params.iface_addr = (void*)addr;
    must(uct_ep_create(&params, &ep), "endpoint");
    printf("ok\n");
}

static void send_many(unsigned long first, unsigned long n, size_t size, int bcopy)
{
    static unsigned char buf[65536];
    ssize_t res;
    size_t arg[2];
    unsigned long i;

    for (i = first; i < first + n; i++) {
        do {
            if (bcopy) {
                arg[0] = size;
                arg[1] = i;
                res    = uct_ep_am_bcopy(ep, BCOPY_ID, pack, arg, 0);
            } else {
                fill(buf, size, i);
                res = uct_ep_am_short(ep, SHORT_ID, i, buf + 8, size - 8);
            }
            uct_worker_progress(worker);
        } while (res == UCS_ERR_NO_RESOURCE);
        if (res < 0) {
            printf("error send: %s\n", ucs_status_string(res));
            return;
        }
    }
    printf("ok\n");
}

static void receive(unsigned long until)
{
    while (received < until) {
        uct_worker_progress(worker);
    }
    printf("%s %lu wrong\n", wrong ? "bad" : "ok", wrong);
}

/* Arms and sleeps until woken. */
static void sleep_once(void)
{
    struct pollfd p = {.events = POLLIN};
    ucs_status_t status;

    must(uct_iface_event_fd_get(iface, &p.fd), "event fd");
    do {
        uct_worker_progress(worker);
        status = uct_iface_event_arm(iface, UCT_EVENT_RECV);
    } while (status == UCS_ERR_BUSY);
    must(status, "arm");
    printf("armed\n");
    fflush(stdout);
    printf("%s\n", poll(&p, 1, 20000) == 1 ? "woken" : "asleep");
}

static void unpack(const char *key_hex, unsigned long addr)
{
    unsigned char key[4096];

    memset(key, 0, sizeof(key));
    unhex(key_hex, key);
    must(uct_rkey_unpack(component, key, &rkey), "unpack");
    remote = addr;
    printf("ok\n");
}

static void copy_out(void *arg, const void *data, size_t length)
{
    memcpy(arg, data, length);
}

/* Puts, gets and adds at an offset of the unpacked memory. */
static void access_remote(const char *what, unsigned long off, unsigned long n)
{
    static unsigned char buf[MEMORY];
    uct_completion_t comp;
    uint64_t result;
    size_t arg[2];

    memset(&comp, 0, sizeof(comp));
    comp.count = 1000;
    if (!strcmp(what, "put")) {
        arg[0] = n;
        arg[1] = off;
        if (uct_ep_put_bcopy(ep, pack, arg, remote + off, rkey.rkey) != (ssize_t)n) {
            must(UCS_ERR_IO_ERROR, "put");
        }
        must(uct_ep_flush(ep, 0, NULL), "flush");
        printf("ok\n");
    } else if (!strcmp(what, "get")) {
        must(uct_ep_get_bcopy(ep, copy_out, buf, n, remote + off, rkey.rkey, &comp), "get");
        hex(buf, n);
        printf("\n");
    } else {
        must(uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, n, &result, remote + off, rkey.rkey, &comp), "fadd");
        printf("%lu\n", result);
    }
}

int main(int argc, char **argv)
{
    static char line[16384], a[8192], b[8192];
    unsigned long x, y, z;

    if (argc != 2) {
        return 2;
    }
    open_all(argv[1]);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (!strncmp(line, "address", 7)) {
            address();
        } else if (sscanf(line, "connect %8191s %8191s", a, b) == 2) {
            connect_to(a, b);
        } else if (sscanf(line, "short %lu %lu %lu", &x, &y, &z) == 3) {
            send_many(x, y, z, 0);
        } else if (sscanf(line, "bcopy %lu %lu %lu", &x, &y, &z) == 3) {
            send_many(x, y, z, 1);
        } else if (sscanf(line, "receive %lu", &x) == 1) {
            receive(x);
        } else if (sscanf(line, "keep %lu", &x) == 1) {
            keep = x;
            printf("ok\n");
        } else if (!strncmp(line, "release", 7)) {
            while (n_kept > 0) {
                uct_iface_release_desc(kept[--n_kept]);
            }
            printf("ok\n");
        } else if (!strncmp(line, "sleep", 5)) {
            sleep_once();
        } else if (sscanf(line, "unpack %8191s %lu", a, &x) == 2) {
            unpack(a, x);
        } else if (sscanf(line, "put %lu %lu", &x, &y) == 2) {
            access_remote("put", x, y);
        } else if (sscanf(line, "get %lu %lu", &x, &y) == 2) {
            access_remote("get", x, y);
        } else if (sscanf(line, "fadd %lu %lu", &x, &y) == 2) {
            access_remote("fadd", x, y);
        } else if (sscanf(line, "word %lu", &x) == 1) {
            printf("%lu\n", *(unsigned long*)((char*)mem.address + x));
        } else if (!strncmp(line, "check", 5)) {
            printf("%s\n", ucs_status_string(uct_ep_check(ep, 0, NULL)));
        } else if (!strncmp(line, "quit", 4)) {
            break;
        } else {
            printf("error: what? %s", line);
        }
        fflush(stdout);
    }
    if (rkey.handle != NULL) {
        uct_rkey_release(component, &rkey);
    }
    if (ep != NULL) {
        uct_ep_destroy(ep);
    }
    uct_mem_free(&mem);
    uct_iface_close(iface);
    uct_md_close(md);
    uct_worker_destroy(worker);
    ucs_async_context_destroy(async);
    return 0;
}
