//go:build linux

package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// A peer names memory, and this process opens that memory with its own rights. A peer could
// name memory of another process that the peer cannot open itself, and so make this process
// write or read there in the peer's stead. So the kernel must confirm that the peer has the
// memory already.

// checkOwner checks that the file look, opened as ref, is one that its peer may write. If ref
// names a descriptor of a process, the process must have opened that descriptor for writing: a
// descriptor can exist without any right to the file (O_PATH), and opening the file here would
// add that right. A file with a name is mapped by its process, pid, for as long as peers may
// use the file; pid is 0 if the process is not known.
func checkOwner(ref reference, pid, look int, st *unix.Stat_t, fs *unix.Statfs_t) error {
	if ref.id&idProcFS != 0 {
		pid, fd := procOf(ref.id)
		f, err := host.FileOf(pid, fd)
		if err != nil {
			return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
		}
		if !f.Writable() || !sameFile(f, look, st, fs) {
			return fmt.Errorf("process %d has not opened this file to write: flags %#o: %w", pid, f.Flags, ucs.ErrUnreachable)
		}
		return nil
	}
	if pid == 0 {
		return nil
	}
	if fs.Type == unix.TMPFS_MAGIC {
		mapped, err := host.Maps(pid, uint64(st.Dev), st.Ino)
		switch {
		case mapped:
			return nil
		case err == nil:
			return fmt.Errorf("process %d has not mapped this file: %w", pid, ucs.ErrUnreachable)
		case !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM):
			return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
		}
	}
	// In other file systems the kernel's list of mappings has other numbers than stat, and
	// the kernel does not show the mappings of a process that is protected from tracing.
	if user, ok := host.FileUser(pid); !ok || user != int(st.Uid) {
		return fmt.Errorf("this file belongs to user %d and process %d to %d: %w", st.Uid, pid, user, ucs.ErrUnreachable)
	}
	return nil
}

// sameFile reports whether look is the file f that the kernel showed for a descriptor: the
// descriptor's owner may have replaced the file in between. Only files in tmpfs are compared,
// where the inode numbers shown are those of stat.
func sameFile(f host.OpenFile, look int, st *unix.Stat_t, fs *unix.Statfs_t) bool {
	if fs.Type != unix.TMPFS_MAGIC {
		return true
	}
	if f.Inode != 0 && f.Inode != st.Ino {
		return false
	}
	var x unix.Statx_t
	if f.Mount == 0 || unix.Statx(look, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &x) != nil || x.Mask&unix.STATX_MNT_ID == 0 {
		return true
	}
	return x.Mnt_id == f.Mount
}
