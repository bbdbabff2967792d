//go:build linux

package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// A peer names memory; we open it with our rights. It may be memory of somebody
// else that the peer could not open itself: then it would make us write or read
// there in its stead. So what the kernel tells must say that the peer has it
// already.

// checkOwner checks that the file look, opened as ref, is one that its peer may
// write. For the descriptor of a process that is what the process has opened it
// for: it could have got hold of a file without any right to it (O_PATH), which
// our opening would add. A file with a name is mapped by its process, pid, for as
// long as peers may use it; pid is 0 where it is not known.
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
	// Elsewhere the kernel shows other numbers than stat does, and the mappings of a
	// process that is protected from tracing it does not show at all.
	if user, ok := host.FileUser(pid); !ok || user != int(st.Uid) {
		return fmt.Errorf("this file belongs to user %d and process %d to %d: %w", st.Uid, pid, user, ucs.ErrUnreachable)
	}
	return nil
}

// sameFile reports whether look is the file that a descriptor was said to be: its
// owner may have changed that in between. In tmpfs inodes are what stat says.
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
