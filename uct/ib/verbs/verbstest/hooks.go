//go:build linux

package verbstest

import (
	"math/rand/v2"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// Hooks for common faults.

// Any is for hooks that are about all messages.
func Any(*Message) bool { return true }

// Datagrams is for hooks that are about datagrams.
func Datagrams(m *Message) bool { return m.Datagram }

// Requests is for hooks that are about work requests of connected queue pairs.
func Requests(m *Message) bool { return !m.Datagram }

// From is for hooks that are about what a device sends.
func From(k *Kernel) func(*Message) bool { return func(m *Message) bool { return m.From == k } }

// When gives all messages of a kind a fate.
func When(of func(*Message) bool, f Fate) Hook {
	return func(m *Message) Fate {
		if of(m) {
			return f
		}
		return Fate{}
	}
}

// Nth gives the n-th message of a kind, from 1, a fate.
func Nth(n int, of func(*Message) bool, f Fate) Hook {
	return When(func(m *Message) bool {
		if n > 0 && of(m) {
			n--
			return n == 0
		}
		return false
	}, f)
}

// Every gives every n-th message of a kind a fate.
func Every(n int, of func(*Message) bool, f Fate) Hook {
	seen := 0
	return When(func(m *Message) bool {
		if !of(m) {
			return false
		}
		seen++
		return seen%n == 0
	}, f)
}

// First asks hooks in turn until one does not let the message through.
func First(hooks ...Hook) Hook {
	return func(m *Message) Fate {
		for _, h := range hooks {
			if f := h(m); f != (Fate{}) {
				return f
			}
		}
		return Fate{}
	}
}

// Chances are how probable faults are, from 0 to 1.
type Chances struct {
	Drop     float64
	Copy     float64 // a datagram arrives twice
	Hold     float64 // a message arrives late, or half of the copies do
	NoAnswer float64 // of requests of connections
	NotReady float64 // of requests of connections that need a receive
	HoldFor  int     // how late at most; 0: 8 messages
}

// Random has faults by chance. The same seed and messages make the same faults.
func Random(seed uint64, c Chances) Hook {
	r := rand.New(rand.NewPCG(seed, 0))
	late := c.HoldFor
	if late == 0 {
		late = 8
	}
	return func(m *Message) (f Fate) {
		switch dice := r.Float64(); {
		case dice < c.Drop:
			f.Drop = true
			return f
		case dice < c.Drop+c.Copy:
			f.Copies = 1
			if r.IntN(2) == 0 {
				f.Hold = 1 + r.IntN(late)
			}
			return f
		}
		if r.Float64() < c.Hold {
			f.Hold = 1 + r.IntN(late)
		}
		if !m.Datagram {
			f.NoAnswer = r.Float64() < c.NoAnswer
			f.NotReady = needsReceive(m.Opcode) && r.Float64() < c.NotReady
		}
		return f
	}
}

// needsReceive reports whether an operation takes a receive.
func needsReceive(opcode uint32) bool {
	switch opcode {
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return true
	}
	return false
}
