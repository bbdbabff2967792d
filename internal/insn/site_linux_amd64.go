package insn

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/cpu"
)

// kind is what is to be done at an instruction.
type kind uint8

const (
	kindPlain     kind = iota
	kindRepeated       // a string instruction with a prefix that repeats it
	kindCall           // syscall
	kindCounter        // rdtsc
	kindCounterID      // rdtscp
	kindEntry          // the first instruction of a function, if it is a plain one
	kindMark           // the first instruction of the mark
	kindAside          // of a function of Program.Aside
	kindMorestack      // of runtime.morestack
	kindTime           // of the kernel's function that reads a clock
)

// site is an instruction.
type site struct {
	kind     kind
	function *function
}

// site returns the instruction at an address. Programs do not change their instructions, so it
// looks at each of them once.
func (t *tracee) site(addr uint64) (*site, error) {
	if s := t.sites[addr]; s != nil {
		return s, nil
	}
	var b [8]byte
	if err := t.peek(addr, b[:]); err != nil {
		return nil, err
	}
	f := t.image.find(addr)
	s := &site{function: f, kind: kindOf(b)}
	switch {
	case addr != f.start:
	case f == t.mark:
		s.kind = kindMark
	case t.aside[f]:
		s.kind = kindAside
	case isMorestack(f):
		s.kind = kindMorestack
	case f.name == timeFunction:
		s.kind = kindTime
	case s.kind == kindPlain:
		s.kind = kindEntry
	}
	t.sites[addr] = s
	return s, nil
}

// isMorestack reports whether a function is the one of Go's runtime that is called at the entry of
// a function whose goroutine needs more stack or is to give way.
func isMorestack(f *function) bool {
	return strings.HasPrefix(f.name, "runtime.morestack.") || strings.HasPrefix(f.name, "runtime.morestack_noctxt.")
}

// kindOf tells an instruction by its first bytes.
func kindOf(b [8]byte) kind {
	switch {
	case b[0] == 0x0f && b[1] == 0x05:
		return kindCall
	case b[0] == 0x0f && b[1] == 0x31:
		return kindCounter
	case b[0] == 0x0f && b[1] == 0x01 && b[2] == 0xf9:
		return kindCounterID
	}
	repeats := false
	for _, c := range b {
		switch {
		case c == 0xf2 || c == 0xf3:
			repeats = true
		case c == 0x66 || c == 0x67 || c&0xf0 == 0x40: // sizes
		case repeats && slices.Contains([]byte{0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}, c):
			return kindRepeated
		default:
			return kindPlain
		}
	}
	return kindPlain
}

// clock is the time of the stepped thread. It goes by the instructions that are counted.
type clock struct {
	counter uint64                  // the processor's, at the first step
	times   [clockIDs]time.Duration // of the machine's clocks at the first step
}

// clockIDs is one more than the number of the last clock that does not depend on the process.
const clockIDs = unix.CLOCK_BOOTTIME + 1

// perNanosecond is the number of instructions in a nanosecond.
const perNanosecond = 2

// newClock returns a clock that goes on from now.
func newClock() (c clock) {
	c.counter = cpu.Counter()
	for id := range c.times {
		var now unix.Timespec
		if unix.ClockGettime(int32(id), &now) == nil {
			c.times[id] = time.Duration(now.Nano())
		}
	}
	return c
}

// timeFunction is the kernel's function that reads a clock.
const timeFunction = kernelPrefix + "clock_gettime"

// readTime carries out an instruction that reads the processor's counter, or a call of
// timeFunction, as one instruction.
func (t *tracee) readTime(s *site) error {
	switch s.kind {
	case kindCounter:
		t.regs.Rip += 2
	case kindCounterID:
		t.regs.Rip += 3
		t.regs.Rcx = 0 // the number of the processor
	case kindTime:
		if err := t.clockGettime(); err != nil {
			return err
		}
	}
	if s.kind != kindTime {
		now := t.clock.counter + t.tallies.total
		t.regs.Rax, t.regs.Rdx = now&(1<<32-1), now>>32
	}
	t.tallies.add(s.function)
	return t.setRegs()
}

// clockGettime returns from clock_gettime(2). Clocks of the process or the thread stand still.
func (t *tracee) clockGettime() error {
	now := time.Duration(t.tallies.total / perNanosecond)
	if id := t.regs.Rdi; id < clockIDs {
		now += t.clock.times[id]
	}
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(now/time.Second))
	binary.LittleEndian.PutUint64(b[8:], uint64(now%time.Second))
	if err := t.poke(t.tid, t.regs.Rsi, b[:]); err != nil {
		return err
	}
	back, err := t.peekWord(t.regs.Rsp)
	if err != nil {
		return err
	}
	t.regs.Rax, t.regs.Rip = 0, back
	t.regs.Rsp += 8
	return nil
}
