//go:build linux

package verbstest

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// These tests use a program without a provider, which writes entries byte by byte.

// program is a process that has a simulated mlx5_ib device open, with one object of each kind.
type program struct {
	t     *testing.T
	k     *Kernel
	f     *file
	mem   []byte // queues, on whole pages, and data from dataAt on
	used  int
	pages [][]byte
	resp  abi.Mlx5AllocUcontextResp
	pd    uint32
	lkey  uint32
	// channel is the channel of completion queues created later, 0 for none.
	channel int
}

const (
	memSize = 1 << 20
	dataAt  = 1 << 19
)

// newProgram opens a new device. If far is set, the device accesses the memory as that of another
// process.
func newProgram(t *testing.T, cfg Config, far bool, asked ...func(*abi.Mlx5AllocUcontextReqV2)) *program {
	t.Helper()
	ucttest.NoLeaks(t)
	if cfg.MLX5 == nil {
		cfg.MLX5 = &MLX5{StaticUARs: true}
	}
	n := NewFabric()
	n.SetWork(InStep)
	p := &program{t: t, k: n.Add(cfg)}
	var s Space
	if far {
		s = Remote(os.Getpid())
	}
	p.f = p.k.openIn(s)
	t.Cleanup(func() {
		if p.f.closed {
			return
		}
		for _, page := range p.pages {
			p.f.Munmap(page)
		}
		if err := p.f.Close(); err != nil {
			t.Error(err)
		}
		for _, m := range p.f.eventPipes {
			os.NewFile(uintptr(m.user), "").Close()
		}
	})
	req := abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 16, NumLowLatencyBfregs: 4, MaxCqeVersion: 1, LibCaps: abi.MLX5_LIB_CAP_4K_UAR | abi.MLX5_LIB_CAP_DYN_UAR}
	for _, change := range asked {
		change(&req)
	}
	p.must(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT).DriverIn(abi.Bytes(&req)).DriverOut(abi.Bytes(&p.resp)))
	var err error
	if p.mem, err = arena.Map(memSize, arena.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { arena.Unmap(p.mem) })
	var pd abi.AllocPdResp
	p.must(uverbs.Invoke(abi.IB_USER_VERBS_CMD_ALLOC_PD, abi.Bytes(&abi.AllocPd{}), abi.Bytes(&pd)))
	p.pd = pd.PdHandle
	mr := abi.RegMr{Start: p.addr(0), HcaVa: p.addr(0), Length: memSize, PdHandle: p.pd, AccessFlags: 0x1f}
	var made abi.RegMrResp
	p.must(uverbs.Invoke(abi.IB_USER_VERBS_CMD_REG_MR, abi.Bytes(&mr), abi.Bytes(&made)))
	p.lkey = made.Lkey
	return p
}

func (p *program) do(c *uverbs.Call) error { return c.Do(p.f, MLX5Driver) }

func (p *program) must(c *uverbs.Call) {
	p.t.Helper()
	if err := p.do(c); err != nil {
		p.t.Fatal(err)
	}
}

// addr returns the address of an offset in the program's memory.
func (p *program) addr(off int) uint64 { return addressOf(p.mem) + uint64(off) }

// room reserves n more bytes of the memory, on pages of their own.
func (p *program) room(n int) (off int) {
	off = p.used
	p.used += (n + pageSize - 1) &^ (pageSize - 1)
	if p.used > dataAt {
		p.t.Fatal("no memory left")
	}
	return off
}

// page maps a page by a command and an index.
func (p *program) page(command, index int) []byte {
	p.t.Helper()
	b, errno := p.f.Mmap(uint64(pageOffset(command, index)), pageSize)
	if errno != 0 {
		p.t.Fatal(errno)
	}
	p.pages = append(p.pages, b)
	return b
}

// bell writes a doorbell at an offset of a page.
func bell(page []byte, at int, v uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	uverbs.RaceSent()
	word.Swap64(page[at:at+8], binary.NativeEndian.Uint64(b[:]))
}

// rulesBeside is like rules, but the rules in others may be broken, too.
func (p *program) rulesBeside(others []string, want ...string) {
	p.t.Helper()
	for _, other := range others {
		if slices.ContainsFunc(p.k.Broken(), func(s string) bool { return strings.Contains(s, other) }) {
			want = append(want, other)
		}
	}
	p.rules(want...)
}

// rules checks that exactly these rules were broken, each given by a part of its text.
func (p *program) rules(want ...string) {
	p.t.Helper()
	got := p.k.Broken()
	for _, w := range want {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, w) }) {
			p.t.Errorf("not broken: %s", w)
		}
	}
	for _, g := range got {
		if !slices.ContainsFunc(want, func(s string) bool { return strings.Contains(g, s) }) {
			p.t.Errorf("broken: %s", g)
		}
	}
}

// queue is a completion queue of a program.
type queue struct {
	p       *program
	handle  uint32
	cqn     uint32
	off     int
	entries uint32
	next    uint32
}

// newCQ creates a completion queue with a number of entries.
func (p *program) newCQ(entries int, change ...func(*abi.Mlx5CreateCq)) *queue {
	p.t.Helper()
	q := &queue{p: p, off: p.room(entries*64 + pageSize), entries: uint32(entries)}
	p.blank(q.off, entries)
	in := abi.Mlx5CreateCq{BufAddr: p.addr(q.off), DbAddr: p.addr(q.record()), CqeSize: 64}
	for _, c := range change {
		c(&in)
	}
	var out abi.Mlx5CreateCqResp
	var cqe [4]byte
	c := uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE).
		New(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, &q.handle).U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, uint32(entries-1)).
		U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0).U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0).
		Out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, cqe[:]).DriverIn(abi.Bytes(&in)).DriverOut(abi.Bytes(&out))
	if p.channel != 0 {
		c.FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, p.channel)
	}
	p.must(c)
	q.cqn = out.Cqn
	return q
}

func (p *program) blank(off, entries int) {
	for i := range entries {
		p.mem[off+i*64+63] = 0xf0
	}
}

// record returns the offset of the doorbell record, after the entries.
func (q *queue) record() int { return q.off + (int(q.entries)*64+pageSize-1)&^(pageSize-1) }

func (q *queue) set(word int, v uint32) { binary.BigEndian.PutUint32(q.p.mem[q.record()+4*word:], v) }

// poll returns the next completion, nil if there is none.
func (q *queue) poll() []byte {
	b := q.p.mem[q.off+int(q.next%q.entries)*64:][:64]
	if b[63]>>4 == abi.MLX5_CQE_INVALID || uint32(b[63]&1) != q.next/q.entries%2 {
		return nil
	}
	q.next++
	q.set(0, q.next&indexMask)
	return b
}

// took checks the next completion: operation, index of the request, status and bytes.
func (q *queue) took(op, syndrome uint8, place uint16, bytes uint32) []byte {
	q.p.t.Helper()
	b := q.poll()
	if b == nil {
		q.p.t.Fatalf("no completion, broken: %q", q.p.k.Broken())
	}
	at := binary.BigEndian.Uint16(b[60:])
	n := binary.BigEndian.Uint32(b[44:])
	if b[63]>>4 != op || at != place || syndrome == 0 && n != bytes || op >= abi.MLX5_CQE_REQ_ERR && b[55] != syndrome {
		q.p.t.Errorf("% x, want operation %d, syndrome %#x, place %d, %d bytes", b, op, syndrome, place, bytes)
	}
	return b
}

// pair is a queue pair of a program.
type pair struct {
	p        *program
	handle   uint32
	qpn      uint32
	off      int // of the receives, which the sends follow
	blocks   int
	receives int
	send     *queue
	recv     *queue
	page     []byte
	at       int // offset of its register in page
	next     uint16
	posted   uint16
}

const recvShift = 5

// newPair creates a queue pair of a type, with room for 8 receives of 2 elements.
func (p *program) newPair(typ uint64, blocks int, change ...func(*abi.Mlx5CreateQp)) *pair {
	p.t.Helper()
	cq := p.newCQ(16)
	return p.newPairOn(typ, blocks, cq, cq, 0, change...)
}

func (p *program) newPairOn(typ uint64, blocks int, send, recv *queue, srq uint32, change ...func(*abi.Mlx5CreateQp)) *pair {
	p.t.Helper()
	q := &pair{p: p, blocks: blocks, receives: 8, send: send, recv: recv}
	q.off = p.room(q.record())
	in := abi.Mlx5CreateQp{BufAddr: p.addr(q.off), DbAddr: p.addr(q.off + q.record() - pageSize), SqWqeCount: uint32(blocks), RqWqeCount: 8, RqWqeShift: recvShift,
		Uidx: uint32(q.off)}
	if p.resp.CqeVersion == 0 {
		in.Uidx = 1<<24 - 1
	}
	for _, c := range change {
		c(&in)
	}
	cap := abi.QpCap{MaxSendWr: uint32(blocks), MaxRecvWr: 8, MaxSendSge: 1, MaxRecvSge: 1}
	var out abi.Mlx5CreateQpResp
	var qpn [4]byte
	c := uverbs.NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE).
		New(abi.UVERBS_ATTR_CREATE_QP_HANDLE, &q.handle).Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, p.pd).
		Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, send.handle).Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, recv.handle).
		U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 0).In(abi.UVERBS_ATTR_CREATE_QP_CAP, abi.Bytes(&cap)).
		Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, typ).Out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Bytes(&cap)).
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn[:]).DriverIn(abi.Bytes(&in)).DriverOut(abi.Bytes(&out))
	if srq != 0 {
		c.Handle(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, srq)
		q.receives = 0
	}
	p.must(c)
	q.qpn = u32(qpn[:])
	if out.BfregIndex != ^uint32(0) {
		q.page = p.page(abi.MLX5_IB_MMAP_REGULAR_PAGE, int(out.BfregIndex/4))
		q.at = abi.MLX5_BF_OFFSET + int(out.BfregIndex%4)*512
	}
	return q
}

// record returns the offset of the doorbell record, on a page after the queues.
func (q *pair) record() int {
	return (q.receives<<recvShift+q.blocks*64+pageSize-1)&^(pageSize-1) + pageSize
}

func (q *pair) set(word int, v uint16) {
	binary.BigEndian.PutUint32(q.p.mem[q.off+q.record()-pageSize+4*word:], uint32(v))
}

func (q *pair) modify(m abi.ModifyQp) {
	q.p.t.Helper()
	m.QpHandle, m.AttrMask = q.handle, m.AttrMask|maskState
	q.p.must(uverbs.Invoke(abi.IB_USER_VERBS_CMD_MODIFY_QP, abi.Bytes(&m), nil))
}

// init takes the queue pair to INIT; the method ready takes it to RTS.
func (q *pair) init() {
	q.p.t.Helper()
	q.modify(abi.ModifyQp{QpState: stateInit, PortNum: 1, QpAccessFlags: 0xf, AttrMask: maskPkeyIndex | maskPort | maskAccess})
}

func (q *pair) ready(peer *pair, retries uint8) {
	q.p.t.Helper()
	port := q.p.k.Config().Ports[0]
	to := abi.QpDest{Dgid: port.GIDs[0].ID, IsGlobal: 1, PortNum: 1, Dlid: port.LID}
	q.modify(abi.ModifyQp{QpState: stateRTR, Dest: to, PathMtu: 5, DestQpNum: peer.qpn, MaxDestRdAtomic: 1,
		AttrMask: maskAV | maskPathMTU | maskDestQPN | maskRQPSN | maskMaxDestRd | maskMinRNR})
	q.modify(abi.ModifyQp{QpState: stateRTS, RetryCnt: retries, RnrRetry: retries, MaxRdAtomic: 1,
		AttrMask: maskTimeout | maskRetry | maskRNR | maskSQPSN | maskMaxRd})
}

// connected returns two connected queue pairs.
func (p *program) connected(blocks int) (a, b *pair) {
	p.t.Helper()
	a, b = p.newPair(abi.IB_UVERBS_QPT_RC, blocks), p.newPair(abi.IB_UVERBS_QPT_RC, blocks)
	for _, q := range []*pair{a, b} {
		q.init()
	}
	a.ready(b, 2)
	b.ready(a, 2)
	return a, b
}

// words parses bytes as libraries print them: hexadecimal, with spaces and bars anywhere.
func words(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ctrl returns a control segment for the next index.
func (q *pair) ctrl(op uint8, segments int, flags byte, imm uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(q.next)<<8|uint32(op))
	b = binary.BigEndian.AppendUint32(b, q.qpn<<8|uint32(segments))
	b = append(b, 0, 0, 0, flags)
	return binary.BigEndian.AppendUint32(b, imm)
}

func (p *program) raddr(off int) []byte {
	b := binary.BigEndian.AppendUint64(nil, p.addr(off))
	return append(binary.BigEndian.AppendUint32(b, p.lkey), 0, 0, 0, 0)
}

func (p *program) data(off, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	b = binary.BigEndian.AppendUint32(b, p.lkey)
	return binary.BigEndian.AppendUint64(b, p.addr(off))
}

// put writes an entry at the next index, and returns the value of its doorbell.
func (q *pair) put(parts ...[]byte) (bell uint64) {
	e := slices.Concat(parts...)
	first := q.off + q.receives<<recvShift
	for i := range e {
		q.p.mem[first+(int(q.next)*64+i)%(q.blocks*64)] = e[i]
	}
	q.next += uint16((len(e) + 63) / 64)
	return binary.BigEndian.Uint64(e)
}

// ring rings for the entries written so far; v is the doorbell value of the last.
func (q *pair) ring(v uint64) {
	q.set(1, q.next)
	bell(q.page, q.at, v)
}

// post writes an entry and rings.
func (q *pair) post(parts ...[]byte) { q.ring(q.put(parts...)) }

// postRecv posts a receive of one element.
func (q *pair) postRecv(off, n int) {
	b := slices.Concat(q.p.data(off, n), words(q.p.t, "00000000 00000100 00000000 00000000"))
	copy(q.p.mem[q.off+int(q.posted)%8<<recvShift:], b)
	q.posted++
	q.set(0, q.posted)
}

// window creates a memory window of a type and returns its key.
func (p *program) window(typ uint8) uint32 {
	p.t.Helper()
	var out abi.AllocMwResp
	p.must(uverbs.Invoke(abi.IB_USER_VERBS_CMD_ALLOC_MW, abi.Bytes(&abi.AllocMw{PdHandle: p.pd, MwType: typ}), abi.Bytes(&out)))
	return out.Rkey
}

// bind posts an entry that opens a window of a type, with the given last byte of its new key. It
// returns that key.
func (q *pair) bind(key uint32, last byte, typ uint8, off, n int) uint32 {
	q.ring(q.put(q.ctrl(abi.MLX5_OPCODE_UMR, 12, abi.MLX5_WQE_CTRL_CQ_UPDATE, key), q.binding(last, typ, off, n)))
	return key&^0xff | uint32(last)
}

// binding returns what follows the control segment of bind.
func (q *pair) binding(last byte, typ uint8, off, n int) []byte {
	b := make([]byte, 176)
	mask, owner := uint64(1<<0|1<<6|1<<13|0xf<<18|1<<29), uint32(0xffffff)
	b[0] = 0x90 // inline, offset
	if typ == 2 {
		b[0] |= 0x20 // check free
		mask |= 1 << 14
		owner = q.qpn
	}
	b[5] = 4
	binary.BigEndian.PutUint64(b[8:], mask)
	m := b[48:]
	m[2] = 0x30 // remote write and read
	binary.BigEndian.PutUint32(m[4:], owner<<8|uint32(last))
	binary.BigEndian.PutUint64(m[16:], q.p.addr(off))
	binary.BigEndian.PutUint64(m[24:], uint64(n))
	k := m[64:]
	binary.BigEndian.PutUint32(k, uint32(n))
	binary.BigEndian.PutUint32(k[4:], q.p.lkey)
	binary.BigEndian.PutUint64(k[8:], q.p.addr(off))
	return b
}

// invalidate writes an entry that invalidates a key, with a fence for earlier ones.
func (q *pair) invalidate(key uint32) uint64 {
	return q.put(q.ctrl(abi.MLX5_OPCODE_UMR, 8, abi.MLX5_WQE_CTRL_CQ_UPDATE|abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, key), invalidation())
}

// invalidation returns what follows the control segment of invalidate.
func invalidation() []byte {
	b := make([]byte, 112)
	b[0] = 0x98 // inline, offset, check QPN
	binary.BigEndian.PutUint64(b[8:], 1<<13|1<<14|1<<29)
	b[48] = 0x40
	copy(b[52:], []byte{0xff, 0xff, 0xff, 0})
	return b
}
