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

// probe is how the machine is asked about cross-memory attach. Tests have others.
type probe struct {
	root     string // of the file system
	selfTest func() error
	hasCap   func() bool  // CAP_SYS_PTRACE is effective
	allow    func() error // lets every process attach to this one
}

var machine = probe{root: "/", selfTest: selfTest, hasCap: hasPtraceCap, allow: allowAll}

// Values of Yama's ptrace_scope
// (Documentation/admin-guide/LSM/Yama.rst of the kernel).
const (
	scopeClassic    = 0 // also where there is no Yama
	scopeRestricted = 1
	scopeAdmin      = 2
	scopeNone       = 3
)

// usable says whether this process can take part: nil, or an error that names
// the obstacle and the remedy and matches ucs.ErrUnsupported. It prepares the
// process to be a target.
func (p *probe) usable() error {
	if err := p.selfTest(); err != nil {
		return err
	}
	switch scope := p.ptraceScope(); scope {
	case scopeClassic:
		return nil
	case scopeRestricted:
		// The peers attach to us, so it is us who must allow it, before they try.
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

// ptraceScope returns Yama's setting. A kernel without Yama does not have it.
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

// sample is what selfTest reads. A variable of the package stays where it is.
var sample = [8]byte{'p', 'r', 'o', 'b', 'e', 1, 2, 3}

// selfTest reads from this process as if from a peer.
func selfTest() error {
	var got [len(sample)]byte
	o := op{kind: opGet, raddr: addressOf(sample[:]), left: len(got), bufs: [][]byte{got[:]}}
	n, e := o.piece(os.Getpid(), len(got))
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

// tryPeer asks the kernel whether this process may access another: nil, or an
// error that names the obstacle and the remedy and matches ucs.ErrUnreachable.
// Permission comes before the address, so an address that nobody has is asked
// for.
func (p *probe) tryPeer(pid int) error {
	var b [1]byte
	o := op{kind: opGet, left: len(b), bufs: [][]byte{b[:]}}
	switch _, e := o.piece(pid, len(b)); e {
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

// denial explains EPERM and says what helps.
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

// sameUser says whether a process acts for the user that this one acts for: nil,
// or an error that matches ucs.ErrUnreachable. A privileged process may access
// those of others, but they can make it wait for their memory without end
// (userfaultfd(2), or a file system of theirs behind it), inside a call that
// nothing ends.
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

// usersOf returns the real and the effective user of a process.
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
