//go:build linux

package shm

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// maxObject bounds the size in bytes of a peer's file or segment, which must fit into the address
// space.
const maxObject = min(1<<46, math.MaxInt-1<<16)

// open opens a peer's file. The file may be of any kind, so it is opened with O_PATH and
// checked before it is opened for reading and writing.
func (m *posix) open(ref reference, pid int) (object, error) {
	if err := m.reachable(ref); err != nil {
		return object{}, err
	}
	if owner := m.owner(ref.id); owner != 0 && pid != 0 && owner != pid {
		return object{}, fmt.Errorf("the memory belongs to process %d, the address names process %d: %w", owner, pid, ucs.ErrUnreachable)
	}
	if who := cmp.Or(pid, m.owner(ref.id)); who != 0 {
		if err := m.users.CheckProcess(who); err != nil {
			return object{}, err
		}
	}
	var path string
	flags := unix.O_PATH | unix.O_CLOEXEC
	switch {
	case ref.id&idProcFS != 0:
		path = linkOf(procOf(ref.id))
	case ref.id&idShmOpen != 0:
		path = filepath.Join(defaultDir, fileName(ref.id))
		flags |= unix.O_NOFOLLOW
	default:
		path = filepath.Join(ref.dir, fileName(ref.id))
		flags |= unix.O_NOFOLLOW
	}
	look, err := unix.Open(path, flags, 0)
	if err != nil {
		return object{}, errOpen(path, err)
	}
	defer unix.Close(look)
	var st unix.Stat_t
	var fs unix.Statfs_t
	if err = unix.Fstat(look, &st); err == nil {
		err = unix.Fstatfs(look, &fs)
	}
	if err != nil {
		return object{}, errOpen(path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size <= 0 || st.Size > maxObject || !m.shared(&st, &fs) {
		return object{}, fmt.Errorf("%s is not shared memory: mode %#o, %d bytes, file system %#x: %w",
			path, st.Mode, st.Size, fs.Type, ucs.ErrUnreachable)
	}
	if err := m.users.Check(int(st.Uid)); err != nil {
		return object{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := checkOwner(ref, pid, look, &st, &fs); err != nil {
		return object{}, fmt.Errorf("%s: %w", path, err)
	}
	fd, err := m.lease.open("/proc/self/fd/" + strconv.Itoa(look))
	if err != nil {
		return object{}, errOpen(path, err)
	}
	// The seals are read before the size: a file that is sealed now keeps its size.
	seals, sealErr := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err := unix.Fstat(fd, &st); err != nil || st.Size <= 0 || st.Size > maxObject {
		unix.Close(fd)
		return object{}, fmt.Errorf("%s has %d bytes, %v: %w", path, st.Size, err, ucs.ErrUnreachable)
	}
	return object{
		ident:  identity{uint64(st.Dev), st.Ino},
		size:   int(st.Size),
		shrink: sealErr != nil || seals&unix.F_SEAL_SHRINK == 0,
		owner:  m.owner(ref.id),
		fd:     fd,
	}, nil
}

// process returns the process in the id of ref, 0 if there is none. It checks that this process may
// look at that process's descriptors and that the descriptor in the id exists. It does not access
// the file.
func (m *posix) process(ref reference) (int, error) {
	if ref.id&idProcFS == 0 {
		return 0, nil
	}
	if err := m.reachable(ref); err != nil {
		return 0, err
	}
	pid, fd := procOf(ref.id)
	path := linkOf(pid, fd)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, errOpen(path, err)
	}
	return pid, nil
}

// linkOf returns the path of descriptor fd of process pid.
func linkOf(pid, fd int) string { return "/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd) }

// names reports whether the file that ref names now has the identity ident: the owner may have
// closed its file and opened another one under the same number. A file that is mapped here keeps
// its inode.
func (m *posix) names(ref reference, ident identity) bool {
	var st unix.Stat_t
	if ref.id&idProcFS == 0 {
		dir := ref.dir
		if ref.id&idShmOpen != 0 {
			dir = defaultDir
		}
		return unix.Lstat(filepath.Join(dir, fileName(ref.id)), &st) == nil && ident == identity{uint64(st.Dev), st.Ino}
	}
	pid, fd := procOf(ref.id)
	var buf [64]byte
	path := append(strconv.AppendInt(append(buf[:0], "/proc/"...), int64(pid), 10), "/fd/"...)
	path = append(strconv.AppendInt(path, int64(fd), 10), 0)
	return sys.Stat(path, &st) == nil && ident == identity{uint64(st.Dev), st.Ino}
}

func (m *posix) abandoned(ref reference, ident identity) bool { return !m.names(ref, ident) }

// unowned reports whether the file name or descriptor does not exist any more, or names another
// file. It returns false if the lookup fails for another reason.
func (m *posix) unowned(ref reference, ident identity) bool {
	path := filepath.Join(cmp.Or(ref.dir, m.dir), fileName(ref.id))
	look := unix.Lstat
	switch {
	case ref.id&idProcFS != 0:
		path, look = linkOf(procOf(ref.id)), unix.Stat
	case ref.id&idShmOpen != 0:
		path = filepath.Join(defaultDir, fileName(ref.id))
	}
	var st unix.Stat_t
	err := look(path, &st)
	return err == unix.ENOENT || err == nil && ident != identity{uint64(st.Dev), st.Ino}
}

// shared reports whether a file is in tmpfs, or in the file system of the directory that is set
// with UCX_POSIX_DIR.
func (m *posix) shared(st *unix.Stat_t, fs *unix.Statfs_t) bool {
	if fs.Type == unix.TMPFS_MAGIC {
		return true
	}
	var dir unix.Stat_t
	return m.dir != defaultDir && unix.Stat(m.dir, &dir) == nil && dir.Dev == st.Dev && uint32(fs.Type) != unix.HUGETLBFS_MAGIC
}

func (m *posix) mmap(o *object) ([]byte, error) { return mmap(o.fd, pages(o.size), 0, false) }

func (m *posix) close(o object) { unix.Close(o.fd) }

func (m *posix) unmap(mem []byte) error { return munmap(mem) }

// reclaim removes the files of this library in dir whose owners have died. No process holds the
// lock on such a file.
func reclaim(dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "ucx_shm_posix_8????????*"))
	if err != nil {
		return
	}
	for _, path := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), "ucx_shm_posix_"), ".")
		if n, err := strconv.ParseUint(number, 16, 64); err != nil || n&^(1<<31-1) != idOurs {
			continue
		}
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.Remove(path)
		}
		unix.Close(fd)
	}
}

// errOpen returns an error that says why a peer's file cannot be opened and what helps.
func errOpen(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENXIO):
		return fmt.Errorf("opening %s: %w: the peer has ended, closed it, or is in another PID namespace: %w",
			path, err, ucs.ErrUnreachable)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("opening %s: %w: both processes must belong to one user, "+
			"and the peer must not be protected from tracing (setuid, PR_SET_DUMPABLE): %w",
			path, err, ucs.ErrUnreachable)
	}
	return fmt.Errorf("opening %s: %w: %w", path, sys.WithLimit(err), ucs.ErrUnreachable)
}
