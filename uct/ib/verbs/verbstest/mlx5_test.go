//go:build linux

package verbstest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// TestEntries executes each operation with hand-written entries, and checks the completions: with
// memory of this process and as of another one, in both versions.
func TestEntries(t *testing.T) {
	for _, far := range []bool{false, true} {
		for version := range uint8(2) {
			t.Run(fmt.Sprintf("far %v, version %d", far, version), func(t *testing.T) {
				testEntries(t, newProgram(t, Config{MLX5: &MLX5{StaticUARs: true, Version0: version == 0}}, far))
			})
		}
	}
}

func testEntries(t *testing.T, p *program) {
	const signaled, src, dst = abi.MLX5_WQE_CTRL_CQ_UPDATE, dataAt, dataAt + 4096
	a, b := p.connected(8)
	data, word := p.mem[src:src+100], p.mem[dst+64:dst+72]
	for i := range data {
		data[i] = byte(i + 1)
	}
	round := func(op uint8, n uint32, parts ...[]byte) {
		t.Helper()
		at := a.next
		a.post(parts...)
		p.k.Step(1)
		c := a.send.took(abi.MLX5_CQE_REQ, 0, at, n)
		number := a.qpn
		if q := binary.BigEndian.Uint32(c[56:]); q != uint32(op)<<24|number {
			t.Errorf("operation %d: %#x", op, q)
		}
		want := uint32(0)
		if p.resp.CqeVersion == 1 {
			want = uint32(a.off)
		}
		if u := binary.BigEndian.Uint32(c[32:]); u != want {
			t.Errorf("operation %d is of %#x, not %#x", op, u, want)
		}
	}
	received := func(op uint8, n uint32, imm string) {
		t.Helper()
		c := b.recv.took(op, 0, b.posted-1, n)
		if !bytes.Equal(c[36:40], words(t, imm)) {
			t.Errorf("operation %d with % x", op, c[36:40])
		}
	}
	b.postRecv(dst, 200)
	round(abi.MLX5_OPCODE_SEND, 0, a.ctrl(abi.MLX5_OPCODE_SEND, 2, signaled, 0), p.data(src, 100))
	received(abi.MLX5_CQE_RESP_SEND, 100, "00000000")
	if !bytes.Equal(p.mem[dst:dst+100], data) {
		t.Error("wrong bytes")
	}
	b.postRecv(dst, 200)
	round(abi.MLX5_OPCODE_SEND_IMM, 0, a.ctrl(abi.MLX5_OPCODE_SEND_IMM, 1, signaled|abi.MLX5_WQE_CTRL_SOLICITED, 0xa1b2c3d4))
	received(abi.MLX5_CQE_RESP_SEND_IMM, 0, "a1b2c3d4")
	if c := p.mem[b.recv.off+64:]; c[63] != abi.MLX5_CQE_RESP_SEND_IMM<<4|2 {
		t.Errorf("solicited: %#x", c[63])
	}
	b.postRecv(dst, 200)
	round(abi.MLX5_OPCODE_RDMA_WRITE_IMM, 0, a.ctrl(abi.MLX5_OPCODE_RDMA_WRITE_IMM, 3, signaled, 7), p.raddr(dst+1000), p.data(src+1, 50))
	received(abi.MLX5_CQE_RESP_WR_IMM, 50, "00000007")
	if !bytes.Equal(p.mem[dst+1000:dst+1050], data[1:51]) {
		t.Error("wrong bytes written")
	}
	round(abi.MLX5_OPCODE_RDMA_READ, 30, a.ctrl(abi.MLX5_OPCODE_RDMA_READ, 4, signaled, 0), p.raddr(dst), p.data(src+200, 10), p.data(src+300, 20))
	if !bytes.Equal(p.mem[src+300:src+320], data[10:30]) {
		t.Error("wrong bytes read")
	}
	binary.NativeEndian.PutUint64(word, 1000)
	operands := func(v ...uint64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, v[0]), v[1])
	}
	round(abi.MLX5_OPCODE_ATOMIC_FA, 8, a.ctrl(abi.MLX5_OPCODE_ATOMIC_FA, 4, signaled, 0), p.raddr(dst+64), operands(5, 99), p.data(src+400, 8))
	if old, now := u64(p.mem[src+400:]), u64(word); old != 1000 || now != 1005 {
		t.Errorf("added: %d, %d", old, now)
	}
	round(abi.MLX5_OPCODE_ATOMIC_CS, 8, a.ctrl(abi.MLX5_OPCODE_ATOMIC_CS, 4, signaled, 0), p.raddr(dst+64), operands(3, 1005), p.data(src+400, 8))
	if old, now := u64(p.mem[src+400:]), u64(word); old != 1005 || now != 3 {
		t.Errorf("swapped: %d, %d", old, now)
	}
	// Data around the end of the queue: the entry begins at the last of its 8 blocks and
	// continues at the first.
	for a.next%8 != 7 {
		round(abi.MLX5_OPCODE_NOP, 0, a.ctrl(abi.MLX5_OPCODE_NOP, 1, signaled, 0))
	}
	inline := slices.Concat(words(t, "80000064"), data, make([]byte, 8))
	round(abi.MLX5_OPCODE_RDMA_WRITE, 0, a.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 9, signaled, 0), p.raddr(dst+2000), inline)
	if !bytes.Equal(p.mem[dst+2000:dst+2100], data) {
		t.Error("wrong bytes around the end")
	}
	// Often enough that the owner bit changes, with unsignaled entries in between.
	for i := range 40 {
		a.post(a.ctrl(abi.MLX5_OPCODE_NOP, 1, 0, 0))
		p.k.Step(9)
		round(abi.MLX5_OPCODE_RDMA_WRITE, 0, a.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, signaled, 0), p.raddr(dst+3000), p.data(src+i, 1))
		if p.mem[dst+3000] != byte(i+1) {
			t.Fatalf("round %d: %d", i, p.mem[dst+3000])
		}
	}
	p.rules()
}

// TestFailures checks the completions of entries that fail, and of those after them.
func TestFailures(t *testing.T) {
	const signaled = abi.MLX5_WQE_CTRL_CQ_UPDATE
	for _, c := range []struct {
		name     string
		entry    func(p *program, q *pair) [][]byte
		tries    int
		syndrome uint8
	}{
		{"a key of nobody's", func(p *program, q *pair) [][]byte {
			return [][]byte{q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, 0, 0), slices.Concat(p.raddr(dataAt)[:8], make([]byte, 8)), p.data(dataAt, 8)}
		}, 1, abi.MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR},
		{"own memory beyond its end", func(p *program, q *pair) [][]byte {
			return [][]byte{q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, 0, 0), p.raddr(dataAt), p.data(memSize-4, 8)}
		}, 1, abi.MLX5_CQE_SYNDROME_LOCAL_PROT_ERR},
		{"no receive", func(p *program, q *pair) [][]byte {
			return [][]byte{q.ctrl(abi.MLX5_OPCODE_SEND, 2, 0, 0), p.data(dataAt, 8)}
		}, 3, abi.MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR},
		{"no link", func(p *program, q *pair) [][]byte {
			p.k.SetPort(false)
			return [][]byte{q.ctrl(abi.MLX5_OPCODE_SEND, 2, 0, 0), p.data(dataAt, 8)}
		}, 3, abi.MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR},
		{"no window", func(p *program, q *pair) [][]byte {
			q.bind(5, 6, 2, dataAt, 8)
			return nil
		}, 1, abi.MLX5_CQE_SYNDROME_MW_BIND_ERR},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, Config{}, false)
			a, _ := p.connected(16)
			a.postRecv(dataAt, 8)
			a.postRecv(dataAt, 8)
			if e := c.entry(p, a); e != nil {
				a.put(e...)
			}
			second := a.next
			a.ring(a.put(a.ctrl(abi.MLX5_OPCODE_NOP, 1, abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, 0)))
			for range c.tries {
				if a.send.poll() != nil {
					t.Error("it has failed already")
				}
				p.k.Step(9)
			}
			cqe := a.send.took(abi.MLX5_CQE_REQ_ERR, c.syndrome, 0, 0)
			if cqe[54] == 0 {
				t.Error("no error of the vendor's")
			}
			flushed := uint8(abi.MLX5_CQE_SYNDROME_WR_FLUSH_ERR)
			a.send.took(abi.MLX5_CQE_REQ_ERR, flushed, second, 0)
			a.send.took(abi.MLX5_CQE_RESP_ERR, flushed, 0, 0)
			a.send.took(abi.MLX5_CQE_RESP_ERR, flushed, 1, 0)
			a.postRecv(dataAt, 8) // without a doorbell
			p.k.Step(9)
			a.send.took(abi.MLX5_CQE_RESP_ERR, flushed, 2, 0)
			a.post(a.ctrl(abi.MLX5_OPCODE_NOP, 1, signaled, 0))
			p.k.Step(9)
			a.send.took(abi.MLX5_CQE_REQ_ERR, flushed, a.next-1, 0)
			p.rules()
		})
	}
}

// TestArming counts the events of a completion queue.
func TestArming(t *testing.T) {
	p := newProgram(t, Config{}, false)
	var channel abi.CreateCompChannelResp
	p.must(uverbs.Invoke(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, abi.Bytes(&abi.CreateCompChannel{}), abi.Bytes(&channel)))
	p.channel = int(channel.Fd)
	a, _ := p.connected(16)
	cq := p.f.objects[a.send.handle].(*cq)
	nop := func() {
		a.post(a.ctrl(abi.MLX5_OPCODE_NOP, 1, abi.MLX5_WQE_CTRL_CQ_UPDATE, 0))
		p.k.Step(9)
	}
	events := uint32(0)
	want := func(n uint32, what string) {
		t.Helper()
		p.k.Step(9)
		if events += n; cq.events != events {
			t.Fatalf("%s: %d events, want %d", what, cq.events, events)
		}
	}
	nop()
	want(0, "not armed")
	a.send.arm(0, 1)
	want(0, "armed")
	nop()
	want(1, "a completion")
	nop()
	want(0, "another one")
	a.send.arm(0, 3)
	nop()
	want(0, "armed before the event was taken")
	a.send.arm(1, 3)
	want(1, "a completion is there already")
	a.send.set(0, 4)
	a.send.arm(2, 4)
	want(0, "armed for all")
	a.send.arm(2, 1<<24|4)
	want(0, "armed for what is solicited, and before for all")
	nop()
	want(1, "which stays so")
	a.send.set(0, 5)
	a.send.arm(3, 5)
	nop()
	want(1, "number 3")
	a.send.set(0, 6)
	a.send.arm(0, 6)
	nop()
	want(1, "number 0 again")
	p.rules()
}

// TestSharedReceives posts to a shared queue in another order than that of its entries.
func TestSharedReceives(t *testing.T) {
	for version := range uint8(2) {
		p := newProgram(t, Config{MLX5: &MLX5{StaticUARs: true, Version0: version == 0}}, version == 1)
		const entries, size = 4, 32
		off, rec := p.room(entries*size), p.room(4)
		order := []int{0, 2, 1, 3}
		link := func(from, to int) { binary.BigEndian.PutUint16(p.mem[off+from*size+2:], uint16(to)) }
		for i := range order[:3] {
			link(order[i], order[i+1])
		}
		in := abi.Mlx5CreateSrq{BufAddr: p.addr(off), DbAddr: p.addr(rec)}
		var out abi.Mlx5CreateSrqResp
		var handle uint32
		var wr, sge [4]byte
		p.must(uverbs.NewCall(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE).New(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, &handle).
			Handle(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, p.pd).U64(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 0).
			U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, 3).U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 1).U32(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, 0).
			Const(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, 0).Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, wr[:]).
			Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, sge[:]).DriverIn(abi.Bytes(&in)).DriverOut(abi.Bytes(&out)))
		if u32(wr[:]) != 3 || u32(sge[:]) != 1 {
			t.Errorf("room for %d receives of %d pieces", u32(wr[:]), u32(sge[:]))
		}
		a, cq := p.newPair(abi.IB_UVERBS_QPT_RC, 16), p.newCQ(16)
		b := p.newPairOn(abi.IB_UVERBS_QPT_RC, 16, cq, cq, handle)
		a.init()
		b.init()
		a.ready(b, 2)
		b.ready(a, 2)
		for i, place := range order[:3] {
			copy(p.mem[off+place*size+16:], p.data(dataAt+1000*i, 100))
			binary.BigEndian.PutUint32(p.mem[rec:], uint32(i+1))
		}
		for i, place := range order[:3] {
			a.post(a.ctrl(abi.MLX5_OPCODE_SEND, 2, 0, 0), p.data(dataAt+5000, 10+i))
			p.k.Step(9)
			c := cq.took(abi.MLX5_CQE_RESP_SEND, 0, uint16(place), uint32(10+i))
			want := out.Srqn
			if version == 1 {
				want = uint32(b.off)
			}
			if n := binary.BigEndian.Uint32(c[32:]); n != want {
				t.Errorf("a completion of %#x, not %#x", n, want)
			}
		}
		p.rules()
		link(3, 7)
		p.mem[off+3*size] = 1
		copy(p.mem[off+3*size+16:], p.data(dataAt, 100))
		binary.BigEndian.PutUint32(p.mem[rec:], 4)
		a.post(a.ctrl(abi.MLX5_OPCODE_SEND, 2, 0, 0), p.data(dataAt+5000, 10))
		p.k.Step(9)
		binary.BigEndian.PutUint32(p.mem[rec:], 9)
		a.post(a.ctrl(abi.MLX5_OPCODE_SEND, 2, 0, 0), p.data(dataAt+5000, 10))
		p.k.Step(9)
		p.rules("entry 0x3: reserved bytes are set", "entry 0x3 names the next entry 0x7, the queue has 4", "invalid doorbell record 0x9: queue of 4 entries, 4 taken")
	}
}

// TestResizing follows completions from old memory to new memory.
func TestResizing(t *testing.T) {
	p := newProgram(t, Config{}, false)
	a, _ := p.connected(16)
	nop := func() {
		a.post(a.ctrl(abi.MLX5_OPCODE_NOP, 1, abi.MLX5_WQE_CTRL_CQ_UPDATE, 0))
		p.k.Step(9)
	}
	nop()
	a.send.took(abi.MLX5_CQE_REQ, 0, 0, 0)
	nop()
	nop()
	resize := func(cqe uint32, off int, size uint16) error {
		in := abi.Mlx5ResizeCq{BufAddr: p.addr(off), CqeSize: size}
		var out abi.ResizeCqResp
		return p.do(uverbs.Invoke(abi.IB_USER_VERBS_CMD_RESIZE_CQ, abi.Bytes(&abi.ResizeCq{CqHandle: a.send.handle, Cqe: cqe}), abi.Bytes(&out)).DriverIn(abi.Bytes(&in)))
	}
	off := p.room(64 * 64)
	p.blank(off, 64)
	if err := resize(63, off, 128); uverbs.Errno(err) != syscall.EINVAL {
		t.Errorf("entries of another size: %v", err)
	}
	if err := resize(1, off, 64); uverbs.Errno(err) != syscall.EINVAL {
		t.Errorf("no room for what is there: %v", err)
	}
	if err := resize(63, off, 64); err != nil {
		t.Fatal(err)
	}
	old := p.mem[a.send.off:]
	if c := old[3*64:]; c[63] != abi.MLX5_CQE_RESIZE_CQ<<4 || old[64+63] != abi.MLX5_CQE_REQ<<4 {
		t.Errorf("the old memory ends with % x", c[:64])
	}
	nop() // index 4 in the new memory
	if c := p.mem[off+4*64:]; c[63] != 0 || binary.BigEndian.Uint16(c[60:]) != 3 {
		t.Errorf("the new memory has % x", c[:64])
	}
	p.rules()
}

// TestRegisters checks the order in which queue pairs get static registers.
func TestRegisters(t *testing.T) {
	p := newProgram(t, Config{}, false)
	cq := p.newCQ(4)
	var got []int
	x := p.f.drv.(*mlx5File)
	if len(x.regs) != 16 {
		t.Fatalf("%d registers", len(x.regs))
	}
	for range 18 {
		q := p.newPairOn(abi.IB_UVERBS_QPT_RC, 4, cq, cq, 0)
		got = append(got, p.k.qps[q.qpn].sq.(*mlx5SQ).reg)
	}
	if want := []int{12, 13, 14, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("registers %v, want %v", got, want)
	}
	p.rules()
}

// TestContexts checks requests for a context and their answers.
func TestContexts(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   MLX5
		bytes int // length of the request
		ask   abi.Mlx5AllocUcontextReqV2
		errno syscall.Errno
		want  abi.Mlx5AllocUcontextResp // fields of the answer to compare
	}{
		{"all", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 15, MaxCqeVersion: 5, LibCaps: 3}, 0,
			abi.Mlx5AllocUcontextResp{BfRegSize: 512, CqeVersion: 1, ResponseLength: 72, LogUarSize: 12, NumUarsPerPage: 1}},
		{"static", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 15, LibCaps: 1}, 0,
			abi.Mlx5AllocUcontextResp{BfRegSize: 512, TotBfregs: 16, ResponseLength: 72, LogUarSize: 12, NumUarsPerPage: 1}},
		{"old", MLX5{OldUARs: true, Answer: 52}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 2, LibCaps: 3}, 0,
			abi.Mlx5AllocUcontextResp{BfRegSize: 512, TotBfregs: 2, ResponseLength: 52}},
		{"the oldest request", MLX5{NoWC: true, StaticUARs: true}, 8, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 16, NumLowLatencyBfregs: 4}, 0,
			abi.Mlx5AllocUcontextResp{TotBfregs: 16, ResponseLength: 72, LogUarSize: 12, NumUarsPerPage: 1}},
		{"a short request", MLX5{}, 12, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 16}, syscall.EINVAL, abi.Mlx5AllocUcontextResp{}},
		{"no registers", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{LibCaps: 1}, syscall.EINVAL, abi.Mlx5AllocUcontextResp{}},
		{"none wanted", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{LibCaps: 2}, 0,
			abi.Mlx5AllocUcontextResp{BfRegSize: 512, ResponseLength: 72, LogUarSize: 12, NumUarsPerPage: 1}},
		{"too many", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 513}, syscall.ENOMEM, abi.Mlx5AllocUcontextResp{}},
		{"all for one each", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 4, NumLowLatencyBfregs: 4}, syscall.EINVAL, abi.Mlx5AllocUcontextResp{}},
		{"a flag", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 4, Flags: 2}, syscall.EOPNOTSUPP, abi.Mlx5AllocUcontextResp{}},
		{"DEVX", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 4, Flags: 1}, syscall.EPERM, abi.Mlx5AllocUcontextResp{}},
		{"what is reserved", MLX5{}, 32, abi.Mlx5AllocUcontextReqV2{TotalNumBfregs: 4, Reserved1: 1}, syscall.EOPNOTSUPP, abi.Mlx5AllocUcontextResp{}},
	} {
		f := NewFabric().Add(Config{MLX5: &c.cfg}).open()
		var got abi.Mlx5AllocUcontextResp
		err := uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT).DriverIn(abi.Bytes(&c.ask)[:c.bytes]).DriverOut(abi.Bytes(&got)).Do(f, MLX5Driver)
		if uverbs.Errno(err) != c.errno && err != nil || err == nil && c.errno != 0 {
			t.Errorf("%s: %v, want %v", c.name, err, c.errno)
		}
		got = abi.Mlx5AllocUcontextResp{BfRegSize: got.BfRegSize, TotBfregs: got.TotBfregs, ResponseLength: got.ResponseLength, CqeVersion: got.CqeVersion,
			LogUarSize: got.LogUarSize, NumUarsPerPage: got.NumUarsPerPage}
		if err == nil && got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		f.Close()
	}
}

// TestRefused makes calls that the kernel refuses.
func TestRefused(t *testing.T) {
	p := newProgram(t, Config{MLX5: &MLX5{}}, false)
	var said []string
	p.k.Fabric().SetLog(func(text string) { said = append(said, text) })
	uar := func() (handle, id uint32) {
		var offset [8]byte
		var length, page [4]byte
		p.must(uverbs.NewCall(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC).New(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &handle).
			Const(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, 1).Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset[:]).
			Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length[:]).Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page[:]))
		b, errno := p.f.Mmap(u64(offset[:]), int(u32(length[:])))
		if errno != 0 {
			t.Fatal(errno)
		}
		p.pages = append(p.pages, b)
		return handle, u32(page[:])
	}
	handle, id := uar()
	paged := func(in *abi.Mlx5CreateCq) {
		in.Flags, in.UarPageIndex = abi.MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX, uint16(id)
	}
	cq := p.newCQ(4, paged)
	onPage := func(in *abi.Mlx5CreateQp) { in.Flags, in.BfregIndex = abi.MLX5_QP_FLAG_UAR_PAGE_INDEX, id }
	q := p.newPairOn(abi.IB_UVERBS_QPT_UC, 4, cq, cq, 0, onPage)
	create := func(typ uint64, change ...func(*abi.Mlx5CreateQp)) syscall.Errno {
		in := abi.Mlx5CreateQp{BufAddr: p.addr(q.off), DbAddr: p.addr(p.room(8)), SqWqeCount: 4, RqWqeCount: 8, RqWqeShift: 4, Uidx: 5}
		onPage(&in)
		for _, c := range change {
			c(&in)
		}
		var h uint32
		var qpn [4]byte
		cap := abi.QpCap{MaxSendWr: 4, MaxRecvWr: 8}
		return uverbs.Errno(p.do(uverbs.NewCall(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE).
			New(abi.UVERBS_ATTR_CREATE_QP_HANDLE, &h).Handle(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE, p.pd).
			Handle(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq.handle).Handle(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq.handle).
			U64(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 0).In(abi.UVERBS_ATTR_CREATE_QP_CAP, abi.Bytes(&cap)).
			Const(abi.UVERBS_ATTR_CREATE_QP_TYPE, typ).Out(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, abi.Bytes(&cap)).
			Out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn[:]).DriverIn(abi.Bytes(&in))))
	}
	for _, c := range []struct {
		name   string
		typ    uint64
		change func(*abi.Mlx5CreateQp)
		want   syscall.Errno
	}{
		{"as it should be", abi.IB_UVERBS_QPT_RC, func(*abi.Mlx5CreateQp) {}, 0},
		{"no page", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.Flags = 0 }, syscall.EINVAL},
		{"a page that is not there", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.BfregIndex++ }, syscall.EINVAL},
		{"12 blocks", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.SqWqeCount = 12 }, syscall.EINVAL},
		{"no number", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.Uidx = 1<<24 - 1 }, syscall.EINVAL},
		{"memory that is not there", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.BufAddr = 4096 }, syscall.EFAULT},
		{"a record that is not there", abi.IB_UVERBS_QPT_RC, func(in *abi.Mlx5CreateQp) { in.DbAddr = 4096 }, syscall.EFAULT},
		{"XRC", abi.IB_UVERBS_QPT_XRC_INI, func(*abi.Mlx5CreateQp) {}, syscall.EOPNOTSUPP},
		{"DC", abi.IB_UVERBS_QPT_DRIVER, func(*abi.Mlx5CreateQp) {}, syscall.EOPNOTSUPP},
	} {
		if got := create(c.typ, c.change); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if want := []string{"mlx5_0: a queue pair of type XRC initiator is refused", "mlx5_0: a queue pair of type DC is refused"}; !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
	for name, c := range map[string]*uverbs.Call{
		"arming by a call": uverbs.Invoke(abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, abi.Bytes(&abi.ReqNotifyCq{CqHandle: cq.handle}), nil),
		"ringing by one":   uverbs.Invoke(abi.IB_USER_VERBS_CMD_POST_SEND, abi.Bytes(&abi.PostSend{QpHandle: q.handle}), abi.Bytes(&abi.PostSendResp{})),
	} {
		if got := uverbs.Errno(p.do(c)); got != syscall.EOPNOTSUPP {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, errno := p.f.Mmap(uint64(pageOffset(0, 0)), pageSize); errno != syscall.EINVAL {
		t.Errorf("a static page of a device without: %v", errno)
	}
	// The page exists as long as queues use it.
	x := p.f.drv.(*mlx5File)
	destroy := func(object, method, attr uint16, h uint32) {
		t.Helper()
		var out [8]byte
		c := uverbs.NewCall(object, method).Destroy(attr, h)
		switch object {
		case abi.UVERBS_OBJECT_CQ:
			c.Out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, out[:])
		case abi.UVERBS_OBJECT_QP:
			c.Out(abi.UVERBS_ATTR_DESTROY_QP_RESP, out[:4])
		}
		p.must(c)
	}
	destroy(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY, abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, handle)
	if len(x.uars) != 1 {
		t.Errorf("%d pages, with queues on one", len(x.uars))
	}
	for h, o := range p.f.objects {
		if _, ok := o.(*qp); ok {
			destroy(abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY, abi.UVERBS_ATTR_DESTROY_QP_HANDLE, h)
		}
	}
	destroy(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY, abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, cq.handle)
	if len(x.uars) != 0 {
		t.Errorf("%d pages left", len(x.uars))
	}
	if now, _ := p.k.Pinned(); now != memSize {
		t.Errorf("%d bytes pinned, of which %d are a region's", now, memSize)
	}
	p.rules()
}

// TestRefusedQueues creates queues and pages that the kernel refuses; they must leave nothing
// behind.
func TestRefusedQueues(t *testing.T) {
	p := newProgram(t, Config{MLX5: &MLX5{NoWC: true}}, false)
	off := p.room(4 * 64)
	p.blank(off, 4)
	was, _ := p.k.Pinned()
	cq := func(change func(*abi.Mlx5CreateCq)) error {
		in := abi.Mlx5CreateCq{BufAddr: p.addr(off), DbAddr: p.addr(p.room(8)), CqeSize: 64}
		change(&in)
		var handle uint32
		var cqe [4]byte
		return p.do(uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE).New(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, &handle).
			U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 3).U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 0).U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0).
			Out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, cqe[:]).DriverIn(abi.Bytes(&in)))
	}
	srq := func(change func(*abi.Mlx5CreateSrq), bytes int) error {
		in := abi.Mlx5CreateSrq{BufAddr: p.addr(off), DbAddr: p.addr(p.room(4))}
		change(&in)
		var handle uint32
		var wr, sge [4]byte
		return p.do(uverbs.NewCall(abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE).New(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE, &handle).
			Handle(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, p.pd).U64(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 0).
			U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, 3).U32(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 1).U32(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, 0).
			Const(abi.UVERBS_ATTR_CREATE_SRQ_TYPE, 0).Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, wr[:]).
			Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, sge[:]).DriverIn(abi.Bytes(&in)[:bytes]))
	}
	uar := func(typ uint64) error {
		var handle uint32
		var offset [8]byte
		var length, page [4]byte
		return p.do(uverbs.NewCall(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC).New(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, &handle).
			Const(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, typ).Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, offset[:]).
			Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, length[:]).Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, page[:]))
	}
	for _, c := range []struct {
		name string
		err  error
		want syscall.Errno
		rule string
	}{
		{"no page", cq(func(in *abi.Mlx5CreateCq) {}), syscall.EINVAL, ""},
		{"entries of 32 bytes", cq(func(in *abi.Mlx5CreateCq) { in.CqeSize = 32 }), syscall.EINVAL, ""},
		{"compressed", cq(func(in *abi.Mlx5CreateCq) { in.CqeCompEn = 1 }), syscall.EOPNOTSUPP, ""},
		{"an unknown flag", cq(func(in *abi.Mlx5CreateCq) { in.Flags = 1 << 9 }), syscall.EINVAL, ""},
		{"reserved", cq(func(in *abi.Mlx5CreateCq) { in.Reserved1 = 1 }), syscall.EINVAL, ""},
		{"a shared queue with a flag", srq(func(in *abi.Mlx5CreateSrq) { in.Flags = 1 }, 32), syscall.EINVAL, ""},
		{"a short request", srq(func(in *abi.Mlx5CreateSrq) {}, 12), syscall.EINVAL, ""},
		{"no memory", srq(func(in *abi.Mlx5CreateSrq) { in.BufAddr = 64 }, 32), syscall.EFAULT, ""},
		{"no record", srq(func(in *abi.Mlx5CreateSrq) { in.DbAddr = 64 }, 32), syscall.EFAULT, ""},
		{"a record across words", srq(func(in *abi.Mlx5CreateSrq) { in.DbAddr += 2 }, 32), syscall.EINVAL, "misaligned doorbell record of a shared receive queue at 0x"},
		{"a page of no kind", uar(7), syscall.EOPNOTSUPP, ""},
		{"one that combines writes", uar(0), syscall.EOPNOTSUPP, ""},
	} {
		if got := uverbs.Errno(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
		if c.rule != "" {
			p.rules(c.rule)
		}
	}
	for _, at := range []struct {
		offset uint64
		length int
	}{{0, 2 * pageSize}, {1, pageSize}, {pagesEnd, pageSize}, {uint64(pageOffset(0, 1)), pageSize}} {
		if _, errno := p.f.Mmap(at.offset, at.length); errno != syscall.EINVAL {
			t.Errorf("%d bytes at %#x: %v", at.length, at.offset, errno)
		}
	}
	if now, _ := p.k.Pinned(); now != was || len(p.f.drv.(*mlx5File).records) != 0 {
		t.Errorf("%d bytes pinned, and before %d", now, was)
	}
}

// TestWindowKeys binds windows of both types and invalidates keys.
func TestWindowKeys(t *testing.T) {
	p := newProgram(t, Config{}, true)
	a, b := p.connected(16)
	const off = dataAt + 4096
	write := func(key uint32, ok bool) {
		t.Helper()
		at := a.next
		r := p.raddr(off + 8)
		binary.BigEndian.PutUint32(r[8:], key)
		a.post(a.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, abi.MLX5_WQE_CTRL_CQ_UPDATE, 0), r, p.data(dataAt, 8))
		p.k.Step(9)
		if ok {
			a.send.took(abi.MLX5_CQE_REQ, 0, at, 0)
		} else {
			a.send.took(abi.MLX5_CQE_REQ_ERR, abi.MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, at, 0)
		}
	}
	bound := func(w uint32, last byte, typ uint8) uint32 {
		t.Helper()
		at := b.next
		key := b.bind(w, last, typ, off, 16)
		p.k.Step(9)
		b.send.took(abi.MLX5_CQE_REQ, 0, at, 0)
		b.post(b.ctrl(abi.MLX5_OPCODE_NOP, 1, abi.MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, 0))
		p.k.Step(9)
		return key
	}
	first, second := p.window(1), p.window(2)
	key := bound(first, 7, 1)
	write(key, true)
	key = bound(key, 8, 1) // replaces the first binding
	write(key, true)
	key = bound(second, 9, 2)
	write(key, true)
	at := b.next
	b.ring(b.invalidate(key))
	p.k.Step(9)
	b.send.took(abi.MLX5_CQE_REQ, 0, at, 0)
	write(key, false)
	p.rules()
}

// TestDatagramAddresses sends to addresses of both link layers, as entries contain them.
func TestDatagramAddresses(t *testing.T) {
	const gid = "00000000 00000000 0000ffff 0a090001"
	for _, c := range []struct {
		name  string
		port  Port
		av    string // after the key and the number
		rule  string
		wrong uint32 // invalid bits next to the number
	}{
		{"RoCE v2", Port{}, "0000c005 00000000 02000a09 00010040 00100000" + gid, "", 0},
		{"RoCE v2, with a flow label", Port{}, "0400e341 00000000 02000a09 00010040 00112345" + gid, "", 0},
		{"another port for a flow label", Port{}, "0000c005 00000000 02000a09 00010040 00112345" + gid, "the source port 0xc005 with flow label 0x12345", 0},
		{"no source port", Port{}, "00000000 00000000 02000a09 00010040 00100000" + gid, "the source port 0x0, with a GID of type 2", 0},
		{"another next hop", Port{}, "0000c005 00000000 02000a09 00020040 00100000" + gid, "the next hop 0x02000a090002", 0},
		{"the bit of InfiniBand", Port{}, "0000c005 00000000 02000a09 00010040 40100000" + gid, "invalid bits 0x4 in an Ethernet address", 0},
		{"an odd service level", Port{}, "0100c005 00000000 02000a09 00010040 00100000" + gid, "rate and service level 0x1", 0},
		{"an empty GID", Port{}, "0000c005 00000000 02000a09 00010040 00500000" + gid, "the source GID 5 is empty", 0},
		{"a bit at the next hop", Port{}, "0000c005 00000001 02000a09 00010040 00100000" + gid, "reserved bytes 00000001 set in its address", 0},
		{"RoCE v1", Port{GIDs: []GID{{}, {ID: IP("10.9.0.1").ID, V1: true}}}, "00000000 00000000 02000a09 00010040 00100000" + gid, "", 0},
		{"InfiniBand", Port{InfiniBand: true, LID: 0x17}, "05030017 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000", "", 0},
		{"InfiniBand, global", Port{InfiniBand: true, LID: 0x17, GIDs: []GID{{}, IP("10.9.0.1")}}, "05030017 00000000 00000000 00000040 40100000" + gid, "", 0},
		{"a number without its bit", Port{}, "0000c005 00000000 02000a09 00010040 00100000" + gid, "without the address bit, or with unknown bits", 1 << 31},
		{"one with another", Port{}, "0000c005 00000000 02000a09 00010040 00100000" + gid, "without the address bit, or with unknown bits", 1 << 30},
		{"InfiniBand, from an empty GID", Port{InfiniBand: true, LID: 0x17}, "05030017 00000000 00000000 00000040 40500000" + gid, "no route to the address", 0},
		{"half global", Port{InfiniBand: true, LID: 0x17}, "05030017 00000000 00000000 00000040 00000000 00000000 00000000 00000000 00000000", "is not global", 0},
		{"reserved", Port{InfiniBand: true, LID: 0x17}, "05030017 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000", "reserved bytes 00000001 set in its address", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, Config{Ports: []Port{c.port}}, false)
			a := p.newPair(abi.IB_UVERBS_QPT_UD, 16)
			a.modify(abi.ModifyQp{QpState: stateInit, PortNum: 1, Qkey: 0x11111111, AttrMask: maskPkeyIndex | maskPort | maskQkey})
			a.modify(abi.ModifyQp{QpState: stateRTR})
			a.modify(abi.ModifyQp{QpState: stateRTS, AttrMask: maskSQPSN})
			a.postRecv(dataAt, 200)
			av := words(t, "11111111 00000000 80000000"+c.av)
			binary.BigEndian.PutUint32(av[8:], 0x80000000^c.wrong|a.qpn)
			a.post(a.ctrl(abi.MLX5_OPCODE_SEND, 5, abi.MLX5_WQE_CTRL_CQ_UPDATE, 0), av, p.data(dataAt+1000, 50))
			p.k.Step(9)
			if c.rule != "" {
				p.rules(c.rule)
				a.send.took(abi.MLX5_CQE_REQ_ERR, abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, 0, 0)
				return
			}
			got := a.send.took(abi.MLX5_CQE_RESP_SEND, 0, 0, 90)
			from := binary.BigEndian.Uint32(got[24:])
			if from&0xffffff != a.qpn || from>>28&1 != uint32(av[28]>>6|(1-btou(c.port.InfiniBand))) {
				t.Errorf("from %#x", from)
			}
			if c.port.InfiniBand && (from>>24&15 != 5 || binary.BigEndian.Uint16(got[22:]) != 0x17) {
				t.Errorf("from % x", got[:28])
			}
			a.send.took(abi.MLX5_CQE_REQ, 0, 0, 0)
			p.rules()
		})
	}
}

func btou(b bool) byte {
	if b {
		return 1
	}
	return 0
}
