//go:build linux

package verbstest

import (
	"math/rand/v2"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// Functions that select messages, and hooks for common faults.

// Any selects all messages.
func Any(*Message) bool { return true }

// Datagrams selects datagrams.
func Datagrams(m *Message) bool { return m.Datagram }

// Requests selects work requests of connected queue pairs.
func Requests(m *Message) bool { return !m.Datagram }

// From selects the messages that a device sends.
func From(k *Kernel) func(*Message) bool { return func(m *Message) bool { return m.From == k } }

// When returns a hook that gives the fate f to all messages that the parameter of selects.
func When(of func(*Message) bool, f Fate) Hook {
	return func(m *Message) Fate {
		if of(m) {
			return f
		}
		return Fate{}
	}
}

// Nth returns a hook that gives the fate f to the n-th selected message, counted from 1.
func Nth(n int, of func(*Message) bool, f Fate) Hook {
	return When(func(m *Message) bool {
		if n > 0 && of(m) {
			n--
			return n == 0
		}
		return false
	}, f)
}

// Every returns a hook that gives the fate f to every n-th selected message.
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

// First returns a hook that asks the hooks in turn and returns the first fate other than the zero
// value.
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

// Chances are the probabilities of faults, from 0 to 1.
type Chances struct {
	Drop     float64
	Copy     float64 // a datagram arrives twice
	Hold     float64 // a message arrives late; of copies, half arrive late
	NoAnswer float64 // only requests of connected queue pairs
	NotReady float64 // only requests of connected queue pairs that need a receive
	HoldFor  int     // largest delay in messages; 0: 8
}

// Random returns a hook with random faults. The same seed and messages produce the same faults.
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

// needsReceive reports whether an operation consumes a receive at the peer.
func needsReceive(opcode uint32) bool {
	switch opcode {
	case abi.IB_UVERBS_WR_SEND, abi.IB_UVERBS_WR_SEND_WITH_IMM, abi.IB_UVERBS_WR_SEND_WITH_INV, abi.IB_UVERBS_WR_RDMA_WRITE_WITH_IMM:
		return true
	}
	return false
}
