package insn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// tracee is a program that is being traced. Its methods are called by the thread that has started
// it, except for kill.
type tracee struct {
	Program
	pid    int
	output chan string // what the program has written, when it has ended

	mu     sync.Mutex
	killed bool // guarded by mu

	tid     int // the thread that is stepped; 0 before its first getppid
	regs    unix.PtraceRegs
	clock   clock
	image   image
	aside   map[*function]bool
	mark    *function
	sites   map[uint64]*site
	tallies tallies
}

// start starts a program, which stops before its first instruction.
func start(p Program) (*tracee, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer to.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	restore := fixAddresses()
	process, err := os.StartProcess(p.Path, append([]string{filepath.Base(p.Path)}, p.Args...), &os.ProcAttr{
		Dir:   p.Dir,
		Env:   p.Env,
		Files: []*os.File{null, to, to},
		Sys:   &unix.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	restore()
	if err != nil {
		from.Close()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			return nil, fmt.Errorf("%w: %w", ErrNotPermitted, err)
		}
		return nil, err
	}
	t := &tracee{
		Program: p, pid: process.Pid, output: make(chan string, 1),
		sites: make(map[uint64]*site), tallies: tallies{functions: p.Functions},
	}
	process.Release() // wait waits for it
	go func() {
		text, _ := io.ReadAll(io.LimitReader(from, 1<<16))
		from.Close()
		if len(text) > 0 {
			text = append([]byte("\n"), text...)
		}
		t.output <- string(text)
	}()
	return t, nil
}

// fixAddresses makes the programs that this thread starts have the same addresses in each run. It
// is without effect where a filter of system calls refuses that. The function that it returns
// undoes it.
func fixAddresses() (restore func()) {
	const (
		query           = 0xffffffff
		addrNoRandomize = 0x0040000 // ADDR_NO_RANDOMIZE, uapi/linux/personality.h
	)
	old, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, query, 0, 0)
	if errno != 0 {
		return func() {}
	}
	unix.RawSyscall(unix.SYS_PERSONALITY, old|addrNoRandomize, 0, 0)
	return func() { unix.RawSyscall(unix.SYS_PERSONALITY, old, 0, 0) }
}

// Entries of the auxiliary vector, uapi/linux/auxvec.h.
const (
	atEntry  = 9  // AT_ENTRY
	atRandom = 25 // AT_RANDOM
)

// auxiliary returns an entry of the program's auxiliary vector, 0 if there is none.
func (t *tracee) auxiliary(entry uint64) (uint64, error) {
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", t.pid))
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == entry {
			return binary.LittleEndian.Uint64(vector[8:]), nil
		}
	}
	return 0, err
}

// fixRandom gives the program the same random bytes at its start in each run. Go's runtime takes
// the seeds of hash tables from them.
func (t *tracee) fixRandom() error {
	addr, err := t.auxiliary(atRandom)
	if err != nil || addr == 0 {
		return err
	}
	return t.poke(t.pid, addr, make([]byte, 16))
}

// kill ends the program. Any thread may call it at any time.
func (t *tracee) kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.killed {
		unix.Kill(-t.pid, unix.SIGKILL)
	}
}

// close kills the program if it has not ended, waits for its end and returns its output.
func (t *tracee) close() string {
	t.kill()
	t.mu.Lock()
	t.killed = true // from now on the number may become that of another process
	t.mu.Unlock()
	for {
		if _, _, err := t.wait(); err != nil {
			return <-t.output
		}
	}
}

// wait waits until a thread of the program has stopped or ended. The error is ECHILD if there is
// none any more.
func (t *tracee) wait() (tid int, status unix.WaitStatus, err error) {
	for {
		// The process group is the program's, so no other child of this process is waited for.
		tid, err = unix.Wait4(-t.pid, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err != unix.EINTR {
			return tid, status, err
		}
	}
}

// The requests that let a stopped thread go on.
const (
	untilCall = unix.PTRACE_SYSCALL    // until it begins or ends a system call
	oneStep   = unix.PTRACE_SINGLESTEP // for one instruction
	freely    = unix.PTRACE_CONT
)

// resume lets a stopped thread go on, with a signal or 0. A thread that was killed meanwhile is no
// error, because wait reports its end.
func (t *tracee) resume(request, tid int, sig unix.Signal) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), 0, uintptr(sig), 0, 0)
	if errno != 0 && errno != unix.ESRCH {
		return os.NewSyscallError("ptrace", errno)
	}
	return nil
}

// callStop is the signal of a stop at a system call, with PTRACE_O_TRACESYSGOOD.
const callStop = unix.SIGTRAP | 0x80

// delivered returns the signal that a stopped thread is to get, 0 if the stop is one of the
// tracer's. New threads begin with SIGSTOP.
func delivered(status unix.WaitStatus) unix.Signal {
	switch sig := status.StopSignal(); sig {
	case callStop, unix.SIGTRAP, unix.SIGSTOP:
		return 0
	default:
		return sig
	}
}

// run traces the program to its end.
func (t *tracee) run() error {
	if _, status, err := t.wait(); err != nil || !status.Stopped() {
		return fmt.Errorf("no stop at the start: status %#x, %v", status, err)
	}
	if err := unix.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return os.NewSyscallError("ptrace(PTRACE_SETOPTIONS)", err)
	}
	if err := t.fixRandom(); err != nil {
		return err
	}
	tid, sig, request := t.pid, unix.Signal(0), untilCall
	for {
		if err := t.resume(request, tid, sig); err != nil {
			return err
		}
		stopped, status, err := t.waitStop()
		if err != nil || stopped == 0 {
			return err
		}
		tid, sig = stopped, delivered(status)
		if request == freely || status.StopSignal() != callStop {
			continue
		}
		if t.tid == tid { // the end of its getppid
			if err := t.step(); err != nil {
				return err
			}
			request = freely
		}
		if t.tid == 0 {
			if err := t.getRegs(tid); err != nil {
				return err
			}
			if t.regs.Orig_rax == unix.SYS_GETPPID {
				t.tid = tid
			}
		}
	}
}

// waitStop waits until a thread has stopped. It returns 0 when the program has ended as it should.
func (t *tracee) waitStop() (tid int, status unix.WaitStatus, err error) {
	for {
		tid, status, err = t.wait()
		switch {
		case err != nil:
			return 0, 0, os.NewSyscallError("wait4", err)
		case status.Stopped():
			return tid, status, nil
		case tid != t.pid:
			// The end of another thread.
		case status.Signaled():
			return 0, 0, fmt.Errorf("killed by signal %d", status.Signal())
		case status.ExitStatus() != 0:
			return 0, 0, fmt.Errorf("exit status %d", status.ExitStatus())
		case t.tid == 0:
			return 0, 0, errors.New("no thread has called getppid")
		default:
			return 0, 0, nil
		}
	}
}

func (t *tracee) getRegs(tid int) error {
	return os.NewSyscallError("ptrace(PTRACE_GETREGS)", unix.PtraceGetRegs(tid, &t.regs))
}

func (t *tracee) setRegs() error {
	return os.NewSyscallError("ptrace(PTRACE_SETREGS)", unix.PtraceSetRegs(t.tid, &t.regs))
}

// peek reads memory of the stepped thread.
func (t *tracee) peek(addr uint64, b []byte) error {
	_, err := unix.PtracePeekData(t.tid, uintptr(addr), b)
	return os.NewSyscallError("ptrace(PTRACE_PEEKDATA)", err)
}

func (t *tracee) peekWord(addr uint64) (uint64, error) {
	var b [8]byte
	err := t.peek(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// poke writes to memory of a thread.
func (t *tracee) poke(tid int, addr uint64, b []byte) error {
	_, err := unix.PtracePokeData(tid, uintptr(addr), b)
	return os.NewSyscallError("ptrace(PTRACE_POKEDATA)", err)
}

// breakpointsWork reports whether breakpoints stop a program on this machine. Some virtual machines
// accept them, and do not stop.
func breakpointsWork(p Program) bool {
	breakpoints.Do(func() {
		t, err := start(p)
		if err != nil {
			return
		}
		defer t.close()
		breakpoints.work = t.stopsAtEntry()
	})
	return breakpoints.work
}

var breakpoints struct {
	sync.Once
	work bool
}

// stopsAtEntry reports whether the program, which has just been started, stops at a breakpoint at
// its entry point.
func (t *tracee) stopsAtEntry() bool {
	if _, status, err := t.wait(); err != nil || !status.Stopped() {
		return false
	}
	entry, err := t.auxiliary(atEntry)
	t.tid = t.pid
	if err != nil || entry == 0 || t.setBreakpoint(entry) != nil || t.resume(freely, t.tid, 0) != nil {
		return false
	}
	_, status, err := t.wait()
	return err == nil && status.Stopped() && status.StopSignal() == unix.SIGTRAP && t.getRegs(t.tid) == nil && t.regs.Rip == entry
}

// setBreakpoint sets the breakpoint of the stepped thread, which stops it before an instruction, or
// removes it if the address is 0. It does not stop other threads.
func (t *tracee) setBreakpoint(addr uint64) error {
	const (
		first   = 848         // offset of u_debugreg in struct user, sys/user.h
		control = first + 7*8 // of the register that enables the others
	)
	var b [8]byte
	if addr != 0 {
		binary.LittleEndian.PutUint64(b[:], addr)
		if _, err := unix.PtracePokeUser(t.tid, first, b[:]); err != nil {
			return os.NewSyscallError("ptrace(PTRACE_POKEUSER)", err)
		}
		binary.LittleEndian.PutUint64(b[:], 1)
	}
	_, err := unix.PtracePokeUser(t.tid, control, b[:])
	return os.NewSyscallError("ptrace(PTRACE_POKEUSER)", err)
}
