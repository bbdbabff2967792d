// Package fault describes the faults to inject into the operations of a simulated transport
// (package sim). A Plan chooses the fault of each operation from the operation's number and
// kind, so that a failing run can be repeated.
package fault

import (
	"math/rand/v2"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Kind is a kind of operation.
type Kind uint8

// Kinds of operations.
const (
	AMShort Kind = iota
	AMBcopy
	AMZcopy
	PutShort
	PutBcopy
	PutZcopy
	GetBcopy
	GetZcopy
	AtomicPost
	AtomicFetch
)

// Op is an operation that is about to be accepted.
type Op struct {
	Kind     Kind
	ID       uct.AMID // id of an active message
	Endpoint int      // number of the endpoint, from 0 in the order of creation
	N        int      // number of the operation on its endpoint, from 1, without refused ones
	Attempt  int      // number of the attempt on its endpoint, from 1, with refused ones
}

// Effect is the fault of an operation. The zero value is no fault. The fields are evaluated in
// their order; the first field that refuses the operation decides.
type Effect struct {
	// Stall makes the endpoint refuse all operations with ucs.ErrNoResource for that many
	// progress rounds of its iface.
	Stall int

	// Refuse is returned by the call. Nothing is started.
	Refuse error

	// Drop breaks the connection: the operation is accepted and lost, and all endpoints between
	// the two ifaces, in both directions, fail with this error.
	Drop error

	// Fail ends the operation with this error instead of executing it. The endpoint continues
	// to work. An operation without a completion is lost silently.
	Fail error

	// Late delays the completion by that many progress rounds.
	Late int

	// Cut shortens an active message by that many bytes, like a faulty or malicious peer.
	Cut int
}

// Plan returns the fault of an operation. It may keep state; a transport calls it for one
// operation at a time, once per attempt.
type Plan func(op Op) Effect

// At applies e to the n-th operation of every endpoint.
func At(n int, e Effect) Plan {
	return func(op Op) (none Effect) {
		if op.N == n {
			return e
		}
		return none
	}
}

// From applies e to the n-th operation of every endpoint and all later ones.
func From(n int, e Effect) Plan {
	return func(op Op) (none Effect) {
		if op.N >= n {
			return e
		}
		return none
	}
}

// DropAt breaks the connection at the n-th operation of every endpoint.
func DropAt(n int) Plan { return At(n, Effect{Drop: ucs.ErrConnectionReset}) }

// FailAt ends the n-th operation of every endpoint with err.
func FailAt(n int, err error) Plan { return At(n, Effect{Fail: err}) }

// Late delays every completion by the given number of rounds.
func Late(rounds int) Plan { return From(1, Effect{Late: rounds}) }

// Storm stalls endpoints at random, in about percent of the attempts, for 1 to longest rounds.
// Equal seeds give equal sequences.
func Storm(seed uint64, percent, longest int) Plan {
	rng := rand.New(rand.NewPCG(seed, 0x5704))
	return func(Op) (none Effect) {
		if rng.IntN(100) < percent {
			return Effect{Stall: 1 + rng.IntN(longest)}
		}
		return none
	}
}

// Only limits a plan to operations for which cond holds.
func Only(cond func(op Op) bool, p Plan) Plan {
	return func(op Op) (none Effect) {
		if cond(op) {
			return p(op)
		}
		return none
	}
}

// All combines plans: each field comes from the first plan that sets it.
func All(plans ...Plan) Plan {
	return func(op Op) (sum Effect) {
		for _, p := range plans {
			e := p(op)
			if sum.Stall == 0 {
				sum.Stall = e.Stall
			}
			if sum.Refuse == nil {
				sum.Refuse = e.Refuse
			}
			if sum.Drop == nil {
				sum.Drop = e.Drop
			}
			if sum.Fail == nil {
				sum.Fail = e.Fail
			}
			if sum.Late == 0 {
				sum.Late = e.Late
			}
			if sum.Cut == 0 {
				sum.Cut = e.Cut
			}
		}
		return sum
	}
}
