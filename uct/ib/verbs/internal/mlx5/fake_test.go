//go:build linux

package mlx5

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// fake simulates the calls of the kernel that the provider makes itself.
type fake struct {
	uverbs.File
	t        testing.TB
	ethernet bool
	gidType  uint32
	noNC     bool          // the kernel maps no uncached pages
	noMap    syscall.Errno // error of all mappings
	length   uint32        // of a page that is an object
	nextPage uint32
	objects  int
	mapped   map[*byte]uint64 // offsets of the mappings
	offsets  []uint64         // all mapped offsets, in order
}

func (f *fake) Name() string { return "fake0" }

func (f *fake) Mmap(offset uint64, n int) ([]byte, syscall.Errno) {
	if f.noMap != 0 {
		return nil, f.noMap
	}
	if f.noNC && offset/uint64(arena.PageSize)>>8 == abi.MLX5_IB_MMAP_NC_PAGE {
		return nil, syscall.EINVAL
	}
	b, err := arena.Map(n, arena.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.mapped[&b[0]] = offset
	f.offsets = append(f.offsets, offset)
	return b, 0
}

func (f *fake) Munmap(b []byte) syscall.Errno {
	delete(f.mapped, &b[0])
	arena.Unmap(b)
	return 0
}

func (f *fake) Ioctl(frame *uverbs.Frame) syscall.Errno {
	r, errno := uverbs.Parse(frame)
	if errno != 0 {
		return errno
	}
	if r.Driver != abi.RDMA_DRIVER_MLX5 {
		return syscall.EINVAL
	}
	out := func(id uint16) []byte { return r.Attr(id).Bytes }
	switch r.Spec.Name {
	case "DEVICE.INVOKE_WRITE":
		var resp abi.ExQueryDeviceResp
		resp.Base.AtomicCap, resp.Base.MaxSrq, resp.Base.DeviceCapFlags = 1, 10, 1<<24
		copy(out(abi.UVERBS_ATTR_CORE_OUT), abi.Bytes(&resp))
	case "DEVICE.QUERY_PORT":
		resp := abi.QueryPortRespEx{LegacyResp: abi.QueryPortResp{LinkLayer: 1}}
		if f.ethernet {
			resp.LegacyResp.LinkLayer = 2
		}
		copy(out(abi.UVERBS_ATTR_QUERY_PORT_RESP), abi.Bytes(&resp))
	case "DEVICE.QUERY_GID_ENTRY":
		copy(out(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY), abi.Bytes(&abi.GidEntry{GidType: f.gidType}))
	case "UAR.ALLOC":
		f.nextPage++
		f.objects++
		r.Attr(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE).Raw.Data = uint64(f.nextPage)
		kind := uint64(r.Attr(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE).Raw.Data)
		binary.NativeEndian.PutUint64(out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET), kind<<32|uint64(f.nextPage)<<12)
		binary.NativeEndian.PutUint32(out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH), f.length)
		binary.NativeEndian.PutUint32(out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID), 0x100+f.nextPage)
	case "UAR.DESTROY":
		f.objects--
	default:
		f.t.Errorf("the provider calls %s", r.Spec.Name)
		return syscall.EPROTONOSUPPORT
	}
	return 0
}

// answer returns an answer to GET_CONTEXT with static pages, and with completions that carry our
// numbers of queues.
func answer() abi.Mlx5AllocUcontextResp {
	return abi.Mlx5AllocUcontextResp{QpTabSize: 1 << 18, BfRegSize: 512, TotBfregs: 16, CacheLineSize: 64, MaxSqDescSz: 1024, MaxRqDescSz: 512,
		MaxSendWqebb: 32768, MaxRecvWr: 32768, MaxSrqRecvWr: 32767, NumPorts: 1, ResponseLength: 72, CqeVersion: 1,
		CmdsSuppUhw: 3, LogUarSize: 12, NumUarsPerPage: 1}
}

func newFake(t testing.TB) *fake {
	return &fake{t: t, mapped: make(map[*byte]uint64), length: uint32(arena.PageSize)}
}

// attach opens the device.
func (f *fake) attach(a abi.Mlx5AllocUcontextResp) (*context, error) {
	o, err := open(provider.Device{File: f, Driver: abi.RDMA_DRIVER_MLX5})
	if err != nil {
		return nil, err
	}
	c := o.(*context)
	c.answer = a
	return c, c.Attach()
}

// newContext returns an open device, which is closed at the end of the test.
func newContext(t testing.TB, change ...func(*fake, *abi.Mlx5AllocUcontextResp)) *context {
	t.Helper()
	f, a := newFake(t), answer()
	for _, do := range change {
		do(f, &a)
	}
	c, err := f.attach(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Detach()
		if len(f.mapped) != 0 || c.records.pages != nil {
			t.Errorf("%d pages left", len(f.mapped))
		}
	})
	return c
}

func version0(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.CqeVersion = 0 }
func dynamic(_ *fake, a *abi.Mlx5AllocUcontextResp)  { a.TotBfregs = 0 }

// versions runs a test with both versions of completions.
func versions(t *testing.T, test func(t *testing.T, c *context)) {
	t.Run("version 0", func(t *testing.T) { test(t, newContext(t, version0)) })
	t.Run("version 1", func(t *testing.T) { test(t, newContext(t)) })
}

func newCQ(t testing.TB, c *context, cqe int) *cq {
	t.Helper()
	o, err := c.NewCQ(&provider.CQInit{CQE: cqe})
	if err != nil {
		t.Fatal(err)
	}
	q := o.(*cq)
	q.answer.Cqn = 0x77
	if err := q.Attach(&provider.CQMade{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Detach)
	return q
}

// The numbers of queue pairs and of a shared receive queue.
const (
	testQPN = 0x141
	peerQPN = 0x212
	testSRQ = 0x35
)

// newQP returns a queue pair that the kernel has created.
func newQP(t testing.TB, a *provider.QPInit) *qp { return newQPN(t, a, testQPN) }

func newQPN(t testing.TB, a *provider.QPInit, qpn provider.QPN) *qp {
	t.Helper()
	o, err := a.SendCQ.(*cq).ctx.NewQP(a)
	if err != nil {
		t.Fatal(err)
	}
	q := o.(*qp)
	q.answer.BfregIndex = 4 // in the second page
	if err := q.Attach(&provider.QPMade{QPN: qpn}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Detach)
	return q
}

// rc returns the attributes of a small queue pair with 4 blocks for each send.
func rc(q *cq, sends, receives int) *provider.QPInit {
	return &provider.QPInit{Type: provider.RC, SendCQ: q, RecvCQ: q,
		Cap: provider.QPCap{MaxSendWR: sends, MaxRecvWR: receives, MaxSendSGE: 4, MaxRecvSGE: 1, MaxInline: 50}}
}

func newSRQ(t testing.TB, c *context, wr, sge int) *srq {
	t.Helper()
	o, err := c.NewSRQ(&provider.SRQInit{MaxWR: wr, MaxSGE: sge})
	if err != nil {
		t.Fatal(err)
	}
	s := o.(*srq)
	s.answer.Srqn = testSRQ
	if err := s.Attach(&provider.SRQMade{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Detach)
	return s
}

// sends returns the memory of the send queue.
func (q *qp) sends() []byte { return q.mem[q.layout.recvBytes():][:q.layout.sendBytes()] }

// words formats memory as 32-bit numbers.
func words(b []byte) string {
	var s []string
	for len(b) >= 4 {
		s = append(s, hex.EncodeToString(b[:4]))
		b = b[4:]
	}
	return strings.Join(s, " ")
}

// wantWords compares memory with 32-bit numbers; bars in want are ignored.
func wantWords(t testing.TB, what string, b []byte, want string) {
	t.Helper()
	want = strings.Join(strings.Fields(strings.ReplaceAll(want, "|", " ")), " ")
	if got := words(b[:4*len(strings.Fields(want))]); got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// counter returns a word of a doorbell record.
func counter(r record, k int) uint32 { return be32(r[k]) }

// completion has the fields of a completion that a device writes.
type completion struct {
	op             uint8
	number         uint32 // of the queue pair or the shared queue, depending on the version
	qpn            uint32
	code           uint8 // operation in the entry
	counter        uint16
	bytes          uint32
	imm            uint32
	from           uint32 // flags_rqpn
	vendor, reason uint8
}

// responder reports whether an operation is that of a receive.
func responder(op uint8) bool {
	return op >= abi.MLX5_CQE_RESP_WR_IMM && op <= abi.MLX5_CQE_RESP_SEND_INV || op == abi.MLX5_CQE_RESP_ERR
}

// of returns a completion of a queue pair.
func (q *qp) of(op, code uint8, counter uint16) completion {
	c := completion{op: op, qpn: q.qpn, code: code, counter: counter}
	if q.ctx.uidx {
		c.number = q.number
	} else if q.srq != nil && responder(op) {
		c.number = testSRQ
	}
	return c
}

// put writes a completion at an index, with the owner bit that the device would set.
func (c *cq) put(i uint32, w completion) {
	e := c.queue.at(i)
	*e = abi.Mlx5Cqe64{MlPath: 0x83}
	e.Slid.Put(0x1234)
	e.SrqnUidx.Put(w.number)
	e.FlagsRqpn.Put(w.from)
	e.ImmInvalPkey.Put(w.imm)
	e.ByteCnt.Put(w.bytes)
	e.SopDropQpn.Put(uint32(w.code)<<24 | w.qpn)
	e.WqeCounter.Put(w.counter)
	if w.op == abi.MLX5_CQE_REQ_ERR || w.op == abi.MLX5_CQE_RESP_ERR {
		e.Timestamp[6], e.Timestamp[7] = w.vendor, w.reason
	}
	e.OpOwn = w.op<<4 | uint8(i/c.size&1)
}

// poll polls up to 16 completions.
func (c *cq) poll() []provider.WC {
	wc := make([]provider.WC, 16)
	return wc[:c.Poll(wc)]
}

// ids returns the IDs of completions.
func ids(wc []provider.WC) (list []uint64) {
	for i := range wc {
		list = append(list, wc[i].ID)
	}
	return list
}

// send posts a request with scatter/gather elements and rings the doorbell.
func (q *qp) send(t testing.TB, wr provider.WR, list ...provider.SGE) {
	t.Helper()
	if _, _, ok := q.Begin(&wr, list); !ok {
		t.Fatal("the queue is full")
	}
	if err := q.Ring(0); err != nil {
		t.Fatal(err)
	}
}

// sendInline posts a request with inline data, as package verbs does.
func (q *qp) sendInline(t testing.TB, wr provider.WR, data []byte) {
	t.Helper()
	from, to, ok := q.Begin(&wr, nil)
	if !ok {
		t.Fatal("the queue is full")
	}
	mem := q.sends()
	n := copy(mem[from:to], data)
	for n < len(data) {
		from, to = q.More()
		if from == to {
			t.Fatalf("no room for %d bytes", len(data)-n)
		}
		n += copy(mem[from:to], data[n:])
	}
	if err := q.Ring(len(data)); err != nil {
		t.Fatal(err)
	}
}

// entry returns the entry at a block, in the length that it states.
func (q *qp) entry(index uint32) []byte {
	mem := q.sends()
	at := int(index) * blockSize % len(mem)
	n := int(mem[at+7]&0x3f) * unit
	return bytes.Clone(append(bytes.Clone(mem[at:]), mem[:at]...)[:n])
}
