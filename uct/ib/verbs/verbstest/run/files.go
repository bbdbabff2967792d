//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// System calls on files by name: files of the simulated tree, or device nodes.

// open handles openat(2).
func (c *caller) open(folder int, addr uint64, flags int) reply {
	name, ok := c.name(folder, addr)
	if !ok {
		return pass
	}
	if node := nodeOf(name); node != "" && flags&(unix.O_PATH|unix.O_DIRECTORY) == 0 {
		return c.openDevice(node, flags)
	}
	if flags&unix.O_ACCMODE != unix.O_RDONLY || flags&(unix.O_CREAT|unix.O_TRUNC) != 0 {
		return refuse(unix.EACCES)
	}
	const kept = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_PATH | unix.O_NONBLOCK
	fd, err := c.m.tree.open(name, flags&kept)
	if err != nil {
		return refuse(errnoOf(err))
	}
	return reply{handed: &givenFD{fd: fd, cloexec: flags&unix.O_CLOEXEC != 0}}
}

// find opens a file of the tree only to look it up (O_PATH), and returns the descriptor.
func (c *caller) find(name string, flags int) (int, error) {
	open := unix.O_PATH
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		open |= unix.O_NOFOLLOW
	}
	return c.m.tree.open(name, open)
}

// stat handles newfstatat(2).
func (c *caller) stat(folder int, addr, to uint64, flags int) reply {
	if c.nameless(addr, flags) {
		return c.fstat(folder, to)
	}
	name, ok := c.name(folder, addr)
	if !ok {
		return pass
	}
	fd, err := c.find(name, flags)
	if err != nil {
		return refuse(errnoOf(err))
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return refuse(errnoOf(err))
	}
	if node := nodeOf(name); node != "" {
		st.Mode, st.Rdev = nodeMode, c.m.tree.rdev(node)
	}
	return c.give(to, bytesOf(&st))
}

// nodeMode is the file type and the permissions of a device node.
const nodeMode = unix.S_IFCHR | 0o666

// nameless reports whether a call with AT_EMPTY_PATH has no file name, so that it is about the
// descriptor itself.
func (c *caller) nameless(addr uint64, flags int) bool {
	var b [1]byte
	return flags&unix.AT_EMPTY_PATH != 0 && (addr == 0 || c.Read(addr, b[:]) && b[0] == 0)
}

// fstat handles fstat(2).
func (c *caller) fstat(fd int, to uint64) reply {
	d := c.device(fd)
	if d == nil {
		return pass
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.file.Pages(), &st); err != nil {
		return refuse(errnoOf(err))
	}
	st.Mode, st.Rdev = nodeMode, d.rdev
	return c.give(to, bytesOf(&st))
}

// statx handles statx(2).
func (c *caller) statx(folder int, addr uint64, flags, mask int, to uint64) reply {
	var st unix.Statx_t
	var rdev uint64
	if c.nameless(addr, flags) {
		d := c.device(folder)
		if d == nil {
			return pass
		}
		if err := unix.Statx(d.file.Pages(), "", unix.AT_EMPTY_PATH, mask, &st); err != nil {
			return refuse(errnoOf(err))
		}
		rdev = d.rdev
	} else {
		name, ok := c.name(folder, addr)
		if !ok {
			return pass
		}
		fd, err := c.find(name, flags)
		if err != nil {
			return refuse(errnoOf(err))
		}
		defer unix.Close(fd)
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mask, &st); err != nil {
			return refuse(errnoOf(err))
		}
		if node := nodeOf(name); node != "" {
			rdev = c.m.tree.rdev(node)
		}
	}
	if rdev != 0 {
		st.Mode, st.Rdev_major, st.Rdev_minor = nodeMode, unix.Major(rdev), unix.Minor(rdev)
	}
	return c.give(to, bytesOf(&st))
}

// give answers a call by writing b to the program's memory at the address to.
func (c *caller) give(to uint64, b []byte) reply {
	if !c.Write(to, b) {
		return refuse(unix.EFAULT)
	}
	return reply{}
}

// access handles faccessat(2).
func (c *caller) access(folder int, addr uint64, mode uint32) reply {
	name, ok := c.name(folder, addr)
	if !ok {
		return pass
	}
	fd, err := c.find(name, 0)
	if err != nil {
		return refuse(errnoOf(err))
	}
	unix.Close(fd)
	if mode&unix.W_OK != 0 && nodeOf(name) == "" {
		return refuse(unix.EACCES)
	}
	return reply{}
}

// readlink handles readlinkat(2).
func (c *caller) readlink(folder int, addr, to, size uint64) reply {
	name, ok := c.name(folder, addr)
	if !ok {
		return pass
	}
	fd, err := c.find(name, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return refuse(errnoOf(err))
	}
	defer unix.Close(fd)
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", b[:])
	if err == unix.ENOENT { // not a link
		err = unix.EINVAL
	}
	if err != nil {
		return refuse(errnoOf(err))
	}
	n = int(min(uint64(n), size))
	r := c.give(to, b[:n])
	r.value = int64(n)
	return r
}

// xattr handles getxattr(2) and similar calls: files have no extended attributes.
func (c *caller) xattr(addr uint64) reply {
	if _, ok := c.name(unix.AT_FDCWD, addr); !ok {
		return pass
	}
	return refuse(unix.EOPNOTSUPP)
}
