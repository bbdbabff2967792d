//go:build linux

package verbstest

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// TestEntryRules breaks the rules of entries one after another.
func TestEntryRules(t *testing.T) {
	const signaled = abi.MLX5_WQE_CTRL_CQ_UPDATE
	write := func(q *pair) []byte {
		return slices.Concat(q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, signaled, 0), q.p.raddr(dataAt), q.p.data(dataAt+100, 64))
	}
	change := func(make func(*pair) []byte, at int, v ...byte) func(*pair) []byte {
		return func(q *pair) []byte {
			b := make(q)
			copy(b[at:], v)
			return b
		}
	}
	atomic := func(q *pair) []byte {
		return slices.Concat(q.ctrl(abi.MLX5_OPCODE_ATOMIC_FA, 4, signaled, 0), q.p.raddr(dataAt), make([]byte, 16), q.p.data(dataAt+100, 8))
	}
	inline := func(q *pair) []byte {
		return slices.Concat(q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, signaled, 0), q.p.raddr(dataAt), words(t, "80000003 61626300 00000000 00000000"))
	}
	for _, far := range []bool{false, true} {
		for _, c := range []struct {
			name  string
			entry func(*pair) []byte
			rule  string // empty: none is broken
		}{
			{"right", write, ""},
			{"another block", change(write, 1, 0, 9), "the index field is block 0x9"},
			{"another queue pair", change(write, 4, 0, 0, 1), "the QP field is 0x1"},
			{"a modifier", change(write, 0, 1), "invalid modifier 0x1"},
			{"a signature", change(write, 8, 1), "nonzero signature 0x1"},
			{"flags", change(write, 11, 0x0c), "flags 0xc"},
			{"an immediate", change(write, 15, 1), "reserved bytes 00000001 set in its control segment"},
			{"a segment too few", change(write, 7, 2), ""}, // a write of no bytes, as libmlx5 makes: only a comparison shows it
			{"a segment too many", change(write, 7, 4), "a piece of 0 bytes"},
			{"nothing behind the first", change(write, 7, 1), "it ends before its remote address"},
			{"no operation", change(write, 3, 0x3f), "unknown operation"},
			{"behind the remote address", change(write, 31, 1), "reserved bytes 00000001 set in its remote address"},
			{"a piece of nothing", change(write, 32, 0, 0, 0, 0), "a piece of 0 bytes"},
			{"atomic", atomic, ""},
			{"without a result", change(atomic, 7, 3), "0 pieces of memory for the result"},
			{"half a result", change(atomic, 51, 4), "4 bytes for the result"},
			{"segments the other way round", func(q *pair) []byte {
				return slices.Concat(q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 3, signaled, 0), q.p.data(dataAt+100, 64), q.p.raddr(dataAt))
			}, "set in its remote address"},
			{"6 GiB", func(q *pair) []byte {
				piece := q.p.data(dataAt, 1<<31-1)
				return slices.Concat(q.ctrl(abi.MLX5_OPCODE_RDMA_WRITE, 5, signaled, 0), q.p.raddr(dataAt), piece, piece, piece)
			}, "more than 4 GiB"},
			{"inline", inline, ""},
			{"long inline", change(inline, 34, 0, 13), "it ends before its inline data"},
			{"huge inline", change(inline, 33, 0xff), "inline data of 16711683 bytes"},
			{"inline nothing", change(inline, 35, 0), "inline data of 0 bytes"},
			{"no segments", change(write, 7, 0), "no segments"},
			{"a long length", change(write, 7, 0x43), "invalid bits 0x40 in the length field"},
			{"as long as it can be", change(write, 7, 63), "63 segments, in a queue of 8 blocks"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := newProgram(t, Config{}, far)
				a, _ := p.connected(8)
				a.post(c.entry(a))
				p.k.Step(9)
				if c.rule == "" {
					p.rules()
					a.send.took(abi.MLX5_CQE_REQ, 0, 0, binary.BigEndian.Uint32(a.send.p.mem[a.send.off+44:]))
					return
				}
				p.rulesBeside([]string{"a doorbell", "an entry at"}, c.rule) // which may also be broken
				a.send.took(abi.MLX5_CQE_REQ_ERR, abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, 0, 0)
			})
		}
	}
}

// TestBellRules breaks the rules of records, doorbells and queues.
func TestBellRules(t *testing.T) {
	nop := func(q *pair) uint64 { return q.put(q.ctrl(abi.MLX5_OPCODE_NOP, 1, 0, 0)) }
	send := func(q *pair, signaled byte) uint64 {
		return q.put(q.ctrl(abi.MLX5_OPCODE_SEND, 2, signaled, 0), q.p.data(dataAt, 8))
	}
	for _, c := range []struct {
		name  string
		do    func(p *program, a, b *pair)
		rules []string
	}{
		{"a doorbell before the record", func(p *program, a, b *pair) {
			bell(a.page, a.at, nop(a))
			p.k.Step(9)
			a.set(1, a.next)
			bell(a.page, a.at, 1<<40|uint64(a.qpn)<<8|1) // and a doorbell for no entry
		}, []string{"a doorbell of the entry at block 0x0, but the doorbell record is 0x0", "a doorbell of the entry at block 0x1, but the doorbell record is 0x1"}},
		{"a doorbell unlike the entry", func(p *program, a, b *pair) { a.ring(nop(a) ^ 2) }, []string{"differs from the beginning of the entry at block 0x0"}},
		{"a doorbell of the first of two", func(p *program, a, b *pair) {
			first := nop(a)
			nop(a)
			a.ring(first)
		}, []string{"no doorbell for the last entry, which ends at block 0x2"}},
		{"another register", func(p *program, a, b *pair) {
			a.set(1, a.next+1)
			bell(a.page, a.at^512, nop(a))
		}, []string{"a doorbell in register"}},
		{"another page", func(p *program, a, b *pair) {
			v := nop(a)
			a.set(1, a.next)
			bell(p.page(0, 6), abi.MLX5_BF_OFFSET, v)
			if a.page = p.page(0, 7); b.page != nil {
				bell(p.page(0, 7), abi.MLX5_BF_OFFSET, v)
				bell(p.page(0, 7), abi.MLX5_BF_OFFSET+512, v)
			}
		}, nil},
		{"beside the registers", func(p *program, a, b *pair) { bell(a.page, 0x40, 5) }, []string{"0x500000000000000 was stored at offset 0x40"}},
		{"a record too far", func(p *program, a, b *pair) {
			v := nop(a)
			a.next += 8
			a.ring(v)
		}, []string{"invalid doorbell record 0x9: queue of 8 blocks, next block 0x0"}},
		{"an entry beyond the record", func(p *program, a, b *pair) {
			v := a.put(slices.Concat(a.ctrl(abi.MLX5_OPCODE_NOP, 5, 0, 0), make([]byte, 64)))
			a.next--
			a.ring(v)
		}, []string{"exceeds the doorbell record 0x1", "no doorbell for the last entry, which ends at block 0x1"}},
		{"receives too far", func(p *program, a, b *pair) {
			b.set(0, 9)
			a.ring(send(a, 8))
		}, []string{"invalid doorbell record 0x9: queue of 8 receives, next index 0x0"}},
		{"a receive of nothing", func(p *program, a, b *pair) {
			b.postRecv(dataAt, 0)
			a.ring(send(a, 8))
		}, []string{"receive 0x0: a piece of 0 bytes"}},
		{"no fence", func(p *program, a, b *pair) {
			a.ring(a.invalidate(a.bind(p.window(2), 1, 2, dataAt, 64)))
			p.k.Step(1)
			a.ring(nop(a))
		}, []string{"no fence after an entry that changes a key"}},
		{"in RESET", func(p *program, a, b *pair) {
			a.modify(abi.ModifyQp{QpState: stateReset})
			a.next = 0
			a.ring(nop(a))
		}, []string{"a doorbell in state 0"}},
		{"records left over", func(p *program, a, b *pair) {
			a.ring(nop(a))
			a.modify(abi.ModifyQp{QpState: stateReset})
			a.init()
		}, []string{"doorbell records 0x0 and 0x1 before anything was posted"}},
		{"a consumer that runs ahead", func(p *program, a, b *pair) {
			a.send.set(0, 3)
			a.ring(a.put(a.ctrl(abi.MLX5_OPCODE_NOP, 1, 8, 0)))
		}, []string{"invalid consumer index 0x3"}},
		{"an arming without a record", func(p *program, a, b *pair) { bell(p.page(0, 0), 0x20, 1<<56|uint64(a.send.cqn)) },
			[]string{"doorbell 0x01000000 does not match the record 0x00000000"}},
		{"an arming of nobody", func(p *program, a, b *pair) { bell(p.page(0, 0), 0x20, 1) }, []string{"completion queue 0x1 in a page that the queue does not use"}},
		{"an arming with a number too many", func(p *program, a, b *pair) { a.send.arm(1, 0) }, []string{"armed with sequence number 1 after 0 events"}},
		{"an arming ahead", func(p *program, a, b *pair) { a.send.arm(0, 1) }, []string{"armed at index 0x1, the next index is 0x0"}},
		{"an arming with more in it", func(p *program, a, b *pair) { a.send.arm(0, 1<<25) }, []string{"invalid bits in the arming word 0x02000000"}},
		{"a receive of more than 2 GiB", func(p *program, a, b *pair) {
			b.postRecv(dataAt, 1)
			p.mem[b.off] = 0x80
			a.ring(send(a, 8))
		}, []string{"receive 0x0: a piece of more than 2 GiB"}},
		{"a queue that is not empty", func(p *program, a, b *pair) {
			p.mem[p.used+63] = 0
			p.newCQ(4, func(in *abi.Mlx5CreateCq) { p.mem[p.used-2*pageSize+63] = 0 })
		}, []string{"memory for 4 completions, not all of which are marked"}},
		{"a record that is not", func(p *program, a, b *pair) {
			p.newCQ(4, func(in *abi.Mlx5CreateCq) { p.mem[p.used-pageSize+3] = 1 })
		}, []string{"doorbell record of a new completion queue contains 0x00000001"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, Config{}, false)
			a, b := p.connected(8)
			c.do(p, a, b)
			p.k.Step(9)
			p.end()
			p.rules(c.rules...)
		})
	}
}

// TestKeyRules breaks the rules of entries that change keys.
func TestKeyRules(t *testing.T) {
	const key, place = 48, 112 // offsets of these segments after the control segment
	for _, c := range []struct {
		name     string
		typ      uint8 // of the window that is bound; 0: a key is invalidated
		segments int   // number of segments too many
		at       int
		v        []byte
		rule     string
	}{
		{"right", 1, 0, 0, nil, ""},
		{"right, of type 2", 2, 0, 0, nil, ""},
		{"no flags", 2, 0, 0, []byte{0}, "flags 0x0 and mask"},
		{"those of the other type", 1, 0, 0, []byte{0xb0}, "flags 0xb0 and mask"},
		{"more in the mask", 1, 0, 15, []byte{0x43}, "flags 0x90 and mask"},
		{"reserved", 1, 0, 1, []byte{1}, "reserved bytes 010000 set in its control segment of keys"},
		{"another number of octowords", 1, 0, 5, []byte{2}, "invalid bind: 2 octowords"},
		{"another length", 1, 0, place + 3, []byte{9}, "lengths 0x9 and 0x8"},
		{"a bind of what is free", 1, 0, key, []byte{0x40}, "free field 0x40"},
		{"of nobody's", 2, 0, key + 4, []byte{0xff, 0xff, 0xff}, "a window of type 2 is bound for QP 0xffffff"},
		{"of somebody's", 1, 0, key + 4, []byte{0, 0, 5}, "a window of type 1 is bound for QP 0x5"},
		{"behind the place", 1, 0, place + 16, []byte{1}, "set in its place of memory"},
		{"a segment too many", 1, 1, 0, nil, "1 segments more than it needs"},
		{"a segment too few", 1, -1, 0, nil, "it ends before its place of memory"},
		{"taken away without a word", 0, 0, key, []byte{0}, "invalidation of a key with invalid free field 0x0"},
		{"taken away from one", 0, 0, key + 4, []byte{0, 0, 5}, "or QP 0x5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, Config{}, false)
			a, _ := p.connected(16)
			b, window := invalidation(), p.window(max(c.typ, 1))
			if c.typ != 0 {
				b = a.binding(7, c.typ, dataAt, 8)
			}
			copy(b[c.at:], c.v)
			a.post(a.ctrl(abi.MLX5_OPCODE_UMR, 1+len(b)/segment+c.segments, abi.MLX5_WQE_CTRL_CQ_UPDATE, window), b, make([]byte, max(c.segments, 0)*segment))
			p.k.Step(9)
			if c.rule == "" {
				p.rules()
				a.send.took(abi.MLX5_CQE_REQ, 0, 0, 0)
				return
			}
			p.rules(c.rule)
			a.send.took(abi.MLX5_CQE_REQ_ERR, abi.MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR, 0, 0)
		})
	}
}

// end closes the device.
func (p *program) end() {
	p.t.Helper()
	for _, page := range p.pages {
		p.f.Munmap(page)
	}
	p.pages = nil
	if err := p.f.Close(); err != nil {
		p.t.Error(err)
	}
}

// arm asks for an event by number, with the given consumer index.
func (q *queue) arm(number, index uint32) {
	w := number<<28 | index
	q.set(1, w)
	bell(q.p.page(0, 0), abi.MLX5_CQ_DOORBELL, uint64(w)<<32|uint64(q.cqn))
}
