//go:build linux && (amd64 || arm64)

package run

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ib/abi"
)

// The filter of system calls, in the language of the kernel's packet filters. It looks at
// struct seccomp_data (linux/seccomp.h).

const (
	offNumber = 0 // of the system call
	offArch   = 4
	offArgs   = 16 // 8 bytes each
)

// firstDevice is the lowest number of a descriptor of an open device.
const firstDevice = 900

// netlinkRDMA is NETLINK_RDMA, linux/netlink.h.
const netlinkRDMA = 20

// when says which calls of a number are caught.
type when uint8

const (
	always   when = iota
	onDevice      // the first argument may be a device
	verbs         // the second argument is RDMA_VERBS_IOCTL
	netlink       // it makes a socket of RDMA's netlink; refused by the filter itself
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// loadArg loads the low half of an argument: the kernel takes no more of descriptors and
// requests. Both architectures are little endian.
func loadArg(n uint32) unix.SockFilter { return load(offArgs + 8*n) }

func ret(action uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET, K: action} }

// unless skips n instructions if a comparison with k does not hold.
func unless(comparison uint16, k uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison, K: k, Jf: uint8(n)}
}

// body is what is done about a call.
func (w when) body() []unix.SockFilter {
	caught, allowed := ret(unix.SECCOMP_RET_USER_NOTIF), ret(unix.SECCOMP_RET_ALLOW)
	switch w {
	case onDevice:
		return []unix.SockFilter{loadArg(0), unless(unix.BPF_JGE, firstDevice, 1), caught, allowed}
	case verbs:
		return []unix.SockFilter{loadArg(1), unless(unix.BPF_JEQ, abi.RDMA_VERBS_IOCTL, 1), caught, allowed}
	case netlink:
		return []unix.SockFilter{
			loadArg(0), unless(unix.BPF_JEQ, unix.AF_NETLINK, 3),
			loadArg(2), unless(unix.BPF_JEQ, netlinkRDMA, 1),
			ret(unix.SECCOMP_RET_ERRNO | uint32(syscall.EPROTONOSUPPORT)), allowed,
		}
	}
	return []unix.SockFilter{caught}
}

// filter is the whole program, for calls by their number.
func filter(calls map[uint32]call) []unix.SockFilter {
	p := []unix.SockFilter{
		load(offArch), unless(unix.BPF_JEQ, auditArch, 1), load(offNumber), // of another architecture: no number fits
	}
	for number, c := range calls {
		body := c.when.body()
		p = append(p, unless(unix.BPF_JEQ, number, len(body)))
		p = append(p, body...)
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}
