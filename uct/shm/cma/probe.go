//go:build linux

package cma

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// probe has the functions that query the machine for its permission of cross-memory attach. Tests
// use other functions.
type probe struct {
	root     string       // directory that contains proc: / except in tests
	selfTest func() error // copies memory of this process
	hasCap   func() bool  // whether CAP_SYS_PTRACE is effective
	allow    func() error // lets every process attach to this one
}

var machine = probe{root: "/", selfTest: selfTest, hasCap: hasPtraceCap, allow: allowAll}

// Values of Yama's setting ptrace_scope (Documentation/admin-guide/LSM/Yama.rst of the kernel).
const (
	scopeClassic    = 0 // also without Yama
	scopeRestricted = 1
	scopeAdmin      = 2
	scopeNone       = 3
)

// usable returns nil if this process can use cross-memory attach, otherwise an error that matches
// ucs.ErrUnsupported and names the obstacle and the remedy. It also permits other processes to
// access this process, if Yama requires that.
func (p *probe) usable() error {
	if err := p.selfTest(); err != nil {
		return err
	}
	switch scope := p.ptraceScope(); scope {
	case scopeClassic:
		return nil
	case scopeRestricted:
		// Peers attach to this process, so this process must permit it before they try.
		if err := p.allow(); err != nil {
			return fmt.Errorf("cma: kernel.yama.ptrace_scope is 1 and prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) failed with %w; "+
				"set kernel.yama.ptrace_scope to 0: %w", err, ucs.ErrUnsupported)
		}
		return nil
	case scopeAdmin:
		if p.hasCap() {
			return nil
		}
		return fmt.Errorf("cma: kernel.yama.ptrace_scope is 2, which requires CAP_SYS_PTRACE; "+
			"give the process this capability or set the scope to 1 or 0: %w", ucs.ErrUnsupported)
	default:
		return fmt.Errorf("cma: kernel.yama.ptrace_scope is %d, which forbids attaching; "+
			"set the scope to 1 or 0, from 3 that needs a reboot: %w", scope, ucs.ErrUnsupported)
	}
}

// ptraceScope returns Yama's setting ptrace_scope, or scopeClassic on a kernel without Yama. It
// returns scopeNone for a value that it cannot read.
func (p *probe) ptraceScope() int {
	text, err := sys.ReadFile(filepath.Join(p.root, "proc/sys/kernel/yama/ptrace_scope"))
	if err != nil {
		return scopeClassic
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < scopeClassic {
		return scopeNone
	}
	return n
}

// sample is the memory that selfTest reads. It is a package variable, because such a variable does
// not move.
var sample = [8]byte{'p', 'r', 'o', 'b', 'e', 1, 2, 3}

// selfTest reads memory of this process in the way that memory of a peer is read.
func selfTest() error {
	var got [len(sample)]byte
	o := op{kind: opGet, raddr: addressOf(sample[:]), left: len(got), bufs: [][]byte{got[:]}}
	n, e := o.copyOnce(os.Getpid(), len(got))
	switch {
	case e == unix.ENOSYS:
		return fmt.Errorf("cma: process_vm_readv: %w; the kernel needs CONFIG_CROSS_MEMORY_ATTACH, "+
			"and a seccomp filter must allow process_vm_readv and process_vm_writev: %w", e, ucs.ErrUnsupported)
	case e != 0:
		return fmt.Errorf("cma: process_vm_readv from this process: %w; a seccomp filter may forbid it: "+
			"allow process_vm_readv and process_vm_writev there, in containers by CAP_SYS_PTRACE: %w", e, ucs.ErrUnsupported)
	case n != len(got) || got != sample:
		return fmt.Errorf("cma: process_vm_readv from this process copied %d of %d bytes: %w", n, len(got), ucs.ErrUnsupported)
	}
	return nil
}

func allowAll() error {
	return unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY&(1<<strconv.IntSize-1), 0, 0, 0)
}

func hasPtraceCap() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

// tryPeer returns nil if the kernel lets this process access another process, otherwise an error
// that matches ucs.ErrUnreachable and names the obstacle and the remedy. It reads from address 0,
// where nothing is mapped, because the kernel checks the permission before the address.
func (p *probe) tryPeer(pid int) error {
	var b [1]byte
	o := op{kind: opGet, left: len(b), bufs: [][]byte{b[:]}}
	switch _, e := o.copyOnce(pid, len(b)); e {
	case 0, unix.EFAULT:
		return nil
	case unix.ESRCH:
		return fmt.Errorf("cma: process %d has ended: %w", pid, ucs.ErrUnreachable)
	case unix.EPERM:
		return fmt.Errorf("cma: the kernel denies access to process %d (%w): %s: %w", pid, e, p.denial(pid), ucs.ErrUnreachable)
	default:
		return fmt.Errorf("cma: process_vm_readv from process %d: %w: %w", pid, e, ucs.ErrUnreachable)
	}
}

// denial returns a text that explains why the kernel refused access to a process with EPERM, and
// what helps.
func (p *probe) denial(pid int) string {
	if uid, _, ok := p.usersOf(pid); ok && uid != os.Getuid() {
		return fmt.Sprintf("it belongs to user %d and this one to %d; run both as one user or give this one CAP_SYS_PTRACE", uid, os.Getuid())
	}
	switch p.ptraceScope() {
	case scopeRestricted:
		return "kernel.yama.ptrace_scope is 1 and the peer has not allowed it; " +
			"it must call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY), or set the scope to 0"
	case scopeAdmin:
		return "kernel.yama.ptrace_scope is 2; give this process CAP_SYS_PTRACE or set the scope to 1 or 0"
	case scopeNone:
		return "kernel.yama.ptrace_scope is 3, which forbids it until the machine is restarted"
	}
	return "it is not dumpable (a program with set-user-id or capabilities, or PR_SET_DUMPABLE of 0), " +
		"in a user namespace this one has no rights in, or guarded by a security module; " +
		"give this process CAP_SYS_PTRACE"
}

// sameUser returns nil if process pid has the same effective user as this process, otherwise an
// error that matches ucs.ErrUnreachable. A privileged process may access processes of other users,
// but they could block it without end, inside a system call that nothing interrupts: by
// userfaultfd(2), or by memory that is backed by a file system of theirs.
func (p *probe) sameUser(pid int) error {
	_, effective, ok := p.usersOf(pid)
	switch own := os.Geteuid(); {
	case !ok:
		return fmt.Errorf("cma: the user of process %d cannot be determined; set UCX_CMA_OTHER_USERS=y to skip the check: %w", pid, ucs.ErrUnreachable)
	case effective != own:
		return fmt.Errorf("cma: process %d runs as user %d and this one as user %d, which would have to trust it; "+
			"run both as one user or set UCX_CMA_OTHER_USERS=y: %w", pid, effective, own, ucs.ErrUnreachable)
	}
	return nil
}

// usersOf returns the real and the effective user id of a process. ok is false if they cannot be
// read.
func (p *probe) usersOf(pid int) (real, effective int, ok bool) {
	text, err := sys.ReadFile(filepath.Join(p.root, "proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(text)) {
		rest, is := strings.CutPrefix(line, "Uid:")
		if !is {
			continue
		}
		n, _ := fmt.Sscan(rest, &real, &effective)
		return real, effective, n == 2
	}
	return 0, 0, false
}
