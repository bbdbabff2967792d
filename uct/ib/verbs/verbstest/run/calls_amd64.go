//go:build linux

package run

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// legacyCalls are the older system calls, which have no argument for a folder.
var legacyCalls = map[uint32]call{
	unix.SYS_OPEN:   {always, func(c *caller, a [6]uint64) reply { return c.open(unix.AT_FDCWD, a[0], int(int32(a[1]))) }},
	unix.SYS_STAT:   {always, func(c *caller, a [6]uint64) reply { return c.stat(unix.AT_FDCWD, a[0], a[1], 0) }},
	unix.SYS_LSTAT:  {always, func(c *caller, a [6]uint64) reply { return c.stat(unix.AT_FDCWD, a[0], a[1], unix.AT_SYMLINK_NOFOLLOW) }},
	unix.SYS_ACCESS: {always, func(c *caller, a [6]uint64) reply { return c.access(unix.AT_FDCWD, a[0], uint32(a[1])) }},
	unix.SYS_READLINK: {always, func(c *caller, a [6]uint64) reply {
		return c.readlink(unix.AT_FDCWD, a[0], a[1], a[2])
	}},
}
