// Package fault turns memory faults into errors of the calls that caused them. It is for mappings
// that can become invalid at any time, such as a shared file that a peer truncates. A call is
// fenced by
//
//	defer fault.End(fault.Begin(), owner, mem, &err)
//
// A fence costs a deferred call, and the fenced call should cost more than that. For shorter calls,
// Fence costs half: a call that reports its end with Passed needs no recover.
package fault

import (
	"runtime"
	"runtime/debug"
)

// Owner knows the memory that can become invalid.
type Owner interface {
	// Fault handles a fault at addr during a call that was fenced with mem. It returns the error of
	// the call, or nil if addr is not in memory of the owner.
	Fault(addr uint64, mem []byte) error
}

// Begin turns faults of this goroutine into panics until End. It returns the first argument of End.
func Begin() bool { return debug.SetPanicOnFault(true) }

// End must be deferred, with the result of Begin. If the call ends with a fault in memory of the
// owner, End stores the owner's error in *err; err may be nil. Other panics continue.
func End(before bool, o Owner, mem []byte, err *error) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		explain(r, o, mem, err)
	}
}

// Fence is a fence in steps, for calls that take a few nanoseconds:
//
//	var f fault.Fence
//	f.Begin()
//	defer f.End(owner, mem, &err)
//	…
//	f.Passed()
type Fence struct{ before, passed bool }

// Begin turns faults of this goroutine into panics until Passed or, without it, until End.
func (f *Fence) Begin() { f.before = debug.SetPanicOnFault(true) }

// Passed reports that the call has reached its end, after which End does nothing.
func (f *Fence) Passed() {
	f.passed = true
	debug.SetPanicOnFault(f.before)
}

// End is the function End for a Fence.
func (f *Fence) End(o Owner, mem []byte, err *error) {
	if f.passed {
		return
	}
	debug.SetPanicOnFault(f.before)
	if r := recover(); r != nil {
		explain(r, o, mem, err)
	}
}

// explain stores the owner's error for a fault. Other panics continue.
func explain(r any, o Owner, mem []byte, err *error) {
	f, ok := r.(interface {
		runtime.Error
		Addr() uintptr // only errors of memory faults have it
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
