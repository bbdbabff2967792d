//go:build linux && (amd64 || arm64)

package run

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// evaluate runs a filter on a call like the kernel (net/core/filter.c). It supports only the
// instructions that the filter uses.
func evaluate(t *testing.T, p []unix.SockFilter, arch, number uint32, args ...uint64) uint32 {
	t.Helper()
	data := binary.NativeEndian.AppendUint32(nil, number)
	data = binary.NativeEndian.AppendUint32(data, arch)
	data = binary.NativeEndian.AppendUint64(data, 0)
	for i := range 6 {
		var v uint64
		if i < len(args) {
			v = args[i]
		}
		data = binary.NativeEndian.AppendUint64(data, v)
	}
	a := uint32(0)
	for pc := 0; pc < len(p); pc++ {
		i, holds := p[pc], false
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.NativeEndian.Uint32(data[i.K:])
			continue
		case unix.BPF_RET:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ:
			holds = a == i.K
		case unix.BPF_JMP | unix.BPF_JGE:
			holds = a >= i.K
		default:
			t.Fatalf("instruction %d: %+v", pc, i)
		}
		if holds {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the filter ends without an answer")
	return 0
}

func TestFilter(t *testing.T) {
	const other = 0x40000003 // AUDIT_ARCH_I386
	refused := unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	p := filter(calls)
	for _, c := range []struct {
		what   string
		arch   uint32
		number uint32
		args   []uint64
		want   uint32
	}{
		{"a file", auditArch, unix.SYS_OPENAT, nil, unix.SECCOMP_RET_USER_NOTIF},
		{"a file of another architecture", other, unix.SYS_OPENAT, nil, unix.SECCOMP_RET_ALLOW},
		{"nothing of ours", auditArch, unix.SYS_GETPID, nil, unix.SECCOMP_RET_ALLOW},
		{"a number that is none", auditArch, 1<<30 | unix.SYS_OPENAT, nil, unix.SECCOMP_RET_ALLOW},
		{"closing a device", auditArch, unix.SYS_CLOSE, []uint64{firstDevice}, unix.SECCOMP_RET_USER_NOTIF},
		{"the upper half of a descriptor", auditArch, unix.SYS_CLOSE, []uint64{1<<32 | firstDevice}, unix.SECCOMP_RET_USER_NOTIF},
		{"closing something else", auditArch, unix.SYS_CLOSE, []uint64{firstDevice - 1}, unix.SECCOMP_RET_ALLOW},
		{"writing", auditArch, unix.SYS_WRITE, []uint64{1}, unix.SECCOMP_RET_ALLOW},
		{"a doorbell", auditArch, unix.SYS_WRITE, []uint64{firstDevice + 50}, unix.SECCOMP_RET_USER_NOTIF},
		{"a request", auditArch, unix.SYS_IOCTL, []uint64{3, abi.RDMA_VERBS_IOCTL}, unix.SECCOMP_RET_USER_NOTIF},
		{"another request", auditArch, unix.SYS_IOCTL, []uint64{firstDevice, unix.TIOCGWINSZ}, unix.SECCOMP_RET_ALLOW},
		{"RDMA's netlink", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, netlinkRDMA}, refused},
		{"another netlink", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, 0}, unix.SECCOMP_RET_ALLOW},
		{"another socket", auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, netlinkRDMA}, unix.SECCOMP_RET_ALLOW},
	} {
		if got := evaluate(t, p, c.arch, c.number, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.what, got, c.want)
		}
	}
	for number, c := range calls {
		if got := evaluate(t, p, auditArch, number, firstDevice, abi.RDMA_VERBS_IOCTL); c.when != netlink && got != unix.SECCOMP_RET_USER_NOTIF {
			t.Errorf("call %d: %#x", number, got)
		}
		if (c.serve == nil) != (c.when == netlink) {
			t.Errorf("call %d is caught, and nobody answers", number)
		}
	}
	if len(p) > unix.BPF_MAXINSNS {
		t.Error(fmt.Sprint(len(p), " instructions"))
	}
}
