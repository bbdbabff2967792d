//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// System calls that are caught by the filter, and the functions that answer them.

// call describes a system call: when it is caught, and the function that answers it. The arguments
// are those that the kernel gets.
type call struct {
	when  when
	serve func(c *caller, args [6]uint64) reply // nil if the filter itself refuses the call
}

// calls maps numbers to the calls of all architectures; init adds legacyCalls.
var calls = map[uint32]call{
	unix.SYS_OPENAT: {always, func(c *caller, a [6]uint64) reply { return c.open(dir(a[0]), a[1], int(int32(a[2]))) }},
	unix.SYS_OPENAT2: {always, func(c *caller, a [6]uint64) reply {
		var flags [8]byte // of struct open_how
		if !c.Read(a[2], flags[:]) {
			return pass
		}
		return c.open(dir(a[0]), a[1], int(int32(u64(flags[:]))))
	}},
	unix.SYS_NEWFSTATAT: {always, func(c *caller, a [6]uint64) reply { return c.stat(dir(a[0]), a[1], a[2], int(int32(a[3]))) }},
	unix.SYS_STATX: {always, func(c *caller, a [6]uint64) reply {
		return c.statx(dir(a[0]), a[1], int(int32(a[2])), int(uint32(a[3])), a[4])
	}},
	unix.SYS_FACCESSAT:  {always, func(c *caller, a [6]uint64) reply { return c.access(dir(a[0]), a[1], uint32(a[2])) }},
	unix.SYS_FACCESSAT2: {always, func(c *caller, a [6]uint64) reply { return c.access(dir(a[0]), a[1], uint32(a[2])) }},
	unix.SYS_READLINKAT: {always, func(c *caller, a [6]uint64) reply { return c.readlink(dir(a[0]), a[1], a[2], a[3]) }},
	unix.SYS_GETXATTR:   {always, func(c *caller, a [6]uint64) reply { return c.xattr(a[0]) }},
	unix.SYS_LGETXATTR:  {always, func(c *caller, a [6]uint64) reply { return c.xattr(a[0]) }},
	unix.SYS_LISTXATTR:  {always, func(c *caller, a [6]uint64) reply { return c.xattr(a[0]) }},
	unix.SYS_LLISTXATTR: {always, func(c *caller, a [6]uint64) reply { return c.xattr(a[0]) }},
	unix.SYS_FSTAT:      {onDevice, func(c *caller, a [6]uint64) reply { return c.fstat(int(int32(a[0])), a[1]) }},
	unix.SYS_CLOSE:      {onDevice, func(c *caller, a [6]uint64) reply { return c.close(int(int32(a[0]))) }},
	unix.SYS_WRITE:      {onDevice, func(c *caller, a [6]uint64) reply { return c.doorbell(int(int32(a[0])), a[1], a[2]) }},
	unix.SYS_IOCTL:      {verbs, func(c *caller, a [6]uint64) reply { return c.request(int(int32(a[0])), a[2]) }},
	unix.SYS_SOCKET:     {when: netlink},
}

// dir converts an argument that is the descriptor of a folder, or AT_FDCWD.
func dir(a uint64) int { return int(int32(a)) }

func init() {
	for number, c := range legacyCalls {
		calls[number] = c
	}
}
