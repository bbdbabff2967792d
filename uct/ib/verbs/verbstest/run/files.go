//go:build linux && (amd64 || arm64)

package run

import "golang.org/x/sys/unix"

// Calls about files by name: of the tree, or of devices' nodes.

// open is openat(2).
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
	return reply{handed: &handed{fd: fd, cloexec: flags&unix.O_CLOEXEC != 0}}
}

// find looks a file of the tree up without opening it.
func (c *caller) find(name string, flags int) (int, error) {
	open := unix.O_PATH
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		open |= unix.O_NOFOLLOW
	}
	return c.m.tree.open(name, open)
}

// stat is newfstatat(2).
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

// nodeMode is the kind and the rights of a device's node.
const nodeMode = unix.S_IFCHR | 0o666

// nameless reports whether a call is about the folder's descriptor itself.
func (c *caller) nameless(addr uint64, flags int) bool {
	var b [1]byte
	return flags&unix.AT_EMPTY_PATH != 0 && (addr == 0 || c.Read(addr, b[:]) && b[0] == 0)
}

// fstat is fstat(2).
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

// statx is statx(2).
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

// give answers a call with something in the program's memory.
func (c *caller) give(to uint64, b []byte) reply {
	if !c.Write(to, b) {
		return refuse(unix.EFAULT)
	}
	return reply{}
}

// access is faccessat(2).
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

// readlink is readlinkat(2).
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
	if err == unix.ENOENT { // it is no link
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

// xattr is getxattr(2) and the like: there are none.
func (c *caller) xattr(addr uint64) reply {
	if _, ok := c.name(unix.AT_FDCWD, addr); !ok {
		return pass
	}
	return refuse(unix.EOPNOTSUPP)
}
