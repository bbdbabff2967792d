//go:build linux && (amd64 || arm64)

package run

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// The system call filter, in the language of the kernel's packet filters (BPF). Its input is struct
// seccomp_data (linux/seccomp.h).

const (
	offNumber = 0 // offset of the number of the system call
	offArch   = 4
	offArgs   = 16 // offset of the arguments, of 8 bytes each
)

// firstDevice is the lowest number of a descriptor of an open device.
const firstDevice = 900

// netlinkRDMA is NETLINK_RDMA, linux/netlink.h.
const netlinkRDMA = 20

// when selects which calls of a system call number are caught.
type when uint8

const (
	always   when = iota
	onDevice      // the first argument may be a device
	verbs         // the second argument is RDMA_VERBS_IOCTL
	netlink       // the call makes an RDMA netlink socket; the filter itself refuses it
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// loadArg loads the low half of an argument, because the kernel uses no more of descriptors and
// requests. Both architectures are little endian.
func loadArg(n uint32) unix.SockFilter { return load(offArgs + 8*n) }

func ret(action uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET, K: action} }

// unless returns an instruction that skips n instructions if a comparison with k does not hold.
func unless(comparison uint16, k uint32, n int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison, K: k, Jf: uint8(n)}
}

// body returns the instructions that decide whether a call is caught.
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

// filter returns the whole BPF program, for system calls by their number.
func filter(calls map[uint32]call) []unix.SockFilter {
	p := []unix.SockFilter{
		load(offArch), unless(unix.BPF_JEQ, auditArch, 1), load(offNumber), // for another architecture no number is loaded, and none matches
	}
	for number, c := range calls {
		body := c.when.body()
		p = append(p, unless(unix.BPF_JEQ, number, len(body)))
		p = append(p, body...)
	}
	return append(p, ret(unix.SECCOMP_RET_ALLOW))
}
