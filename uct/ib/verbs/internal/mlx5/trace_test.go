//go:build linux && mlx5trace

package mlx5

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// steps returns the stores and barriers of do as text; look is called before each.
func steps(q *qp, cq *cq, look func(step), do func()) (list []string) {
	traced = func(s step) {
		what := s.what
		switch {
		case s.record == nil && s.bell == nil:
		case s.record == q.rec:
			what = fmt.Sprintf("record %d of the queue pair = %#x", s.word, s.value)
		case s.record == cq.rec:
			what = fmt.Sprintf("record %d of the completions = %#x", s.word, s.value)
		case s.record != nil:
			what = fmt.Sprintf("record %d = %#x", s.word, s.value)
		default:
			what = fmt.Sprintf("%s %#x", s.what, s.value)
		}
		list = append(list, what)
		if look != nil {
			look(s)
		}
	}
	defer func() { traced = func(step) {} }()
	do()
	return list
}

func want(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

// TestTraceSend checks that entries are complete before the record is written, and the record
// before the doorbell.
func TestTraceSend(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 8, 4))
	wr := toPeer(provider.WRSend, 0)
	for i := range uint32(3) {
		var whole []byte
		got := steps(q, cq, func(s step) {
			if whole == nil {
				whole = slices.Clone(q.sends())
			}
			if !slices.Equal(whole, q.sends()) {
				t.Errorf("an entry is written at %s", s.what)
			}
		}, func() {
			q.Begin(&wr, []provider.SGE{piece64})
			q.Begin(&wr, nil)
			q.Gather(piece8)
			q.Ring(0)
		})
		want(t, "send", got, "to device", fmt.Sprintf("record 1 of the queue pair = %#x", 2*i+2), "flush",
			fmt.Sprintf("ring %#x", uint64(2*i+1)<<40|uint64(abi.MLX5_OPCODE_SEND)<<32|testQPN<<8|2), "flush")
		whole = nil
	}
	want(t, "nothing", steps(q, cq, nil, func() { q.Ring(0) }))
}

// TestTraceFlame checks the same for BlueFlame.
func TestTraceFlame(t *testing.T) {
	t.Setenv(blueFlameEnv, "1")
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 8, 4))
	got := steps(q, cq, nil, func() { q.send(t, toPeer(provider.WRSend, 0), piece64, piece64, piece64, piece64) })
	want(t, "flame", got, "to device", "record 1 of the queue pair = 0x2", "flush", "flame 0xa00014105", "flame 0x400000129a", "flush")
	got = steps(q, cq, nil, func() { q.send(t, toPeer(provider.WRSend, 0)) })
	want(t, "bell", got, "to device", "record 1 of the queue pair = 0x3", "flush", "ring 0x20a00014101", "flush")
}

// TestTraceReceive checks that scatter/gather lists are written before the record, and that there
// is no doorbell.
func TestTraceReceive(t *testing.T) {
	c := newContext(t)
	cq := newCQ(t, c, 10)
	q := newQP(t, rc(cq, 8, 4))
	wr := []provider.RecvWR{{SGList: []provider.SGE{piece64}}, {}}
	want(t, "receive", steps(q, cq, func(step) { wantWords(t, "piece", q.mem, data64) }, func() { q.PostRecv(wr) }),
		"to device", "record 0 of the queue pair = 0x2")
	s := newSRQ(t, c, 5, 1)
	want(t, "shared receive", steps(q, cq, func(step) { wantWords(t, "piece", s.mem[16:], data64) }, func() { s.PostRecv(wr) }),
		"to device", "record 0 = 0x2")
}

// TestTracePoll checks that the barrier is between the owner bit and the rest of each completion,
// and that the record is written once.
func TestTracePoll(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 8, 4))
	want(t, "nothing", steps(q, cq, nil, func() { cq.poll() }))
	for i := range 2 {
		q.send(t, toPeer(provider.WRSend, 0))
		cq.put(uint32(i), q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, uint16(i)))
	}
	want(t, "two", steps(q, cq, func(s step) {
		if s.what == "from device" { // what was read before it does not count
			e := cq.queue.at(1)
			e.WqeCounter.Put(1)
		}
	}, func() {
		cq.queue.at(1).WqeCounter.Put(7)
		if got := ids(cq.poll()); len(got) != 2 {
			t.Errorf("%d", got)
		}
	}), "from device", "from device", "record 0 of the completions = 0x2")
}

// TestTraceArm checks that the record is written before the register.
func TestTraceArm(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 8, 4))
	cq.next = 5
	want(t, "arm", steps(q, cq, nil, func() { cq.Arm(true) }),
		"record 1 of the completions = 0x1000005", "flush", "ring 0x100000500000077", "flush")
}

// TestTraceDrain checks that completions are moved before the record lets the device overwrite
// them.
func TestTraceDrain(t *testing.T) {
	cq := newCQ(t, newContext(t), 10)
	q := newQP(t, rc(cq, 8, 4))
	q.send(t, toPeer(provider.WRSend, 0))
	cq.put(0, q.of(abi.MLX5_CQE_REQ, abi.MLX5_OPCODE_SEND, 0))
	want(t, "reset", steps(q, cq, nil, q.Reset), "from device", "to device", "record 0 of the completions = 0x1",
		"record 0 of the queue pair = 0x0", "record 1 of the queue pair = 0x0")
}
