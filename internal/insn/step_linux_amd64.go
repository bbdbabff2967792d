package insn

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// step steps the thread, which returns from its first getppid, up to the next one. The other
// threads run freely.
func (t *tracee) step() error {
	t.clock = newClock()
	release := shareProcessor(t.tid)
	defer release()
	if err := t.load(); err != nil {
		return err
	}
	if err := t.getRegs(t.tid); err != nil {
		return err
	}
	for {
		end, err := t.arrive()
		if err != nil || end {
			return err
		}
		at := t.regs.Rip
		s := t.sites[at]
		if err := t.advance(oneStep); err != nil {
			return err
		}
		if s.kind == kindRepeated && t.regs.Rip == at {
			continue // it stops after each repetition
		}
		t.tallies.add(s.function)
	}
}

// load finds the functions of the program.
func (t *tracee) load() (err error) {
	if t.image, err = loadImage(t.pid, t.peek); err != nil {
		return err
	}
	i := slices.IndexFunc(t.image, func(f *function) bool { return f.name == t.Mark })
	if i < 0 {
		return fmt.Errorf("no function %s", t.Mark)
	}
	t.mark = t.image[i]
	t.aside = make(map[*function]bool)
	for _, f := range t.image {
		if slices.ContainsFunc(t.Aside, func(name string) bool {
			return f.name == name || strings.HasSuffix(name, ".") && strings.HasPrefix(f.name, name)
		}) {
			t.aside[f] = true
		}
	}
	return nil
}

// advance lets the stepped thread go on up to its next stop, which is after one instruction or at
// the breakpoint, as requested.
func (t *tracee) advance(request int) error {
	sig := unix.Signal(0)
	for {
		if err := t.resume(request, t.tid, sig); err != nil {
			return err
		}
		status, err := t.waitStepped()
		if err != nil {
			return err
		}
		if status.StopSignal() == unix.SIGTRAP && status.TrapCause() == 0 {
			return t.getRegs(t.tid)
		}
		if sig = delivered(status); sig == unix.SIGURG {
			sig = 0 // Go's scheduler, which asks at the entries of functions too
		}
	}
}

// waitStepped waits until the stepped thread has stopped. Meanwhile it lets the others go on.
func (t *tracee) waitStepped() (unix.WaitStatus, error) {
	for {
		tid, status, err := t.waitStop()
		switch {
		case tid == 0:
			return 0, cmp.Or(err, errors.New("exit between the calls of getppid"))
		case tid == t.tid:
			return status, nil
		}
		if err := t.resume(freely, tid, delivered(status)); err != nil {
			return 0, err
		}
	}
}

// arrive does what is due before the next instruction: it ends a passage, lets the thread make a
// detour, and carries out instructions that read the time. It reports whether the next instruction
// is the second getppid.
func (t *tracee) arrive() (end bool, err error) {
	for {
		s, err := t.site(t.regs.Rip)
		if err != nil {
			return false, err
		}
		switch s.kind {
		case kindEntry:
			t.tallies.enter()
			return false, nil
		case kindMark:
			t.tallies.mark()
			return false, nil
		case kindAside:
			err = t.leave()
		case kindMorestack:
			err = t.leaveAnew()
		case kindCounter, kindCounterID, kindTime:
			err = t.readTime(s)
		case kindCall:
			return t.regs.Rax == unix.SYS_GETPPID, nil
		default:
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// leave lets the thread execute the function that it has just called, and all that this calls.
func (t *tracee) leave() error {
	back, err := t.peekWord(t.regs.Rsp)
	if err != nil {
		return err
	}
	return t.skip(back)
}

// leaveAnew does the same for morestack, after which its caller begins anew.
func (t *tracee) leaveAnew() error {
	back, err := t.peekWord(t.regs.Rsp)
	if err != nil {
		return err
	}
	caller := t.image.find(back)
	if caller == nowhere {
		return errors.New("a function without a name has called morestack")
	}
	t.tallies.retract(caller)
	return t.skip(caller.start)
}

// skip lets the thread go on up to an address without counting. Without breakpoints it steps there.
func (t *tracee) skip(until uint64) error {
	if t.noBreakpoint || !breakpointsWork(t.Program) || t.setBreakpoint(until) != nil {
		for {
			if err := t.advance(oneStep); err != nil || t.regs.Rip == until {
				return err
			}
		}
	}
	if err := t.advance(freely); err != nil {
		return err
	}
	if t.regs.Rip != until {
		return fmt.Errorf("stopped at %#x, want %#x", t.regs.Rip, until)
	}
	return t.setBreakpoint(0)
}
