// Package fault turns faults in memory that can be taken away, as that of a peer who
// cuts a shared file short, into errors of the calls that touched it. A call is
// fenced by
//
//	defer fault.End(fault.Begin(), owner, mem, &err)
//
// A fence costs a deferred call; what it is around should be more than that. Where it is
// not, Fence costs half: a call that says that it has come to its end asks for no panic.
package fault

import (
	"runtime"
	"runtime/debug"
)

// Owner knows memory that can be taken away.
type Owner interface {
	// Fault is told of a fault at addr during a call that was fenced with mem, and
	// returns what the call fails with. nil: addr is in no such memory.
	Fault(addr uint64, mem []byte) error
}

// Begin makes faults of this goroutine panics until End.
func Begin() bool { return debug.SetPanicOnFault(true) }

// End must be deferred, with the result of Begin. If the call ends with a fault that
// is the owner's, *err is what the owner makes of it; err may be nil where nobody
// wants to know. Any other panic goes on.
func End(before bool, o Owner, mem []byte, err *error) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		explain(r, o, mem, err)
	}
}

// Fence is a fence in parts, for calls that take a few nanoseconds:
//
//	var f fault.Fence
//	f.Begin()
//	defer f.End(owner, mem, &err)
//	…
//	f.Passed()
type Fence struct{ before, passed bool }

// Begin makes faults of this goroutine panics until Passed, or else until End.
func (f *Fence) Begin() { f.before = debug.SetPanicOnFault(true) }

// Passed says that the call has come to its end: End has nothing to do.
func (f *Fence) Passed() {
	f.passed = true
	debug.SetPanicOnFault(f.before)
}

// End is the function End for such a fence.
func (f *Fence) End(o Owner, mem []byte, err *error) {
	if f.passed {
		return
	}
	debug.SetPanicOnFault(f.before)
	if r := recover(); r != nil {
		explain(r, o, mem, err)
	}
}

// explain asks the owner for the error of a fault. Any other panic goes on.
func explain(r any, o Owner, mem []byte, err *error) {
	f, ok := r.(interface {
		runtime.Error
		Addr() uintptr // only errors of faults have one
	})
	if ok {
		if failure := o.Fault(uint64(f.Addr()), mem); failure != nil {
			if err != nil {
				*err = failure
			}
			return
		}
	}
	panic(r)
}

// Within reports whether addr is an address in mem.
func Within(addr uint64, mem []byte) bool {
	return len(mem) > 0 && addr-addressOf(mem) < uint64(len(mem))
}
