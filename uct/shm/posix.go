//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// posix is the mapper of the transport posix, which shares files. If the field link is set, the
// files have no name: peers open them through /proc/PID/fd, and nothing is left when the process
// ends, even if it crashes.
type posix struct {
	link  bool
	dir   string // directory of files with a name
	pid   int
	ns    host.Namespace // PID namespace of pid
	users host.Users
	lease leases
}

var _ mapper = (*posix)(nil)

func newPosix(s posixDomainSettings) *posix {
	m := &posix{link: s.UseProcLink, dir: filepath.Clean(s.Dir), pid: os.Getpid(), ns: host.OwnNamespace(topo.NamespacePID)}
	if !m.link {
		reclaim(m.dir)
	}
	return m
}

// extra returns the bytes that follow the fixed part of addresses and keys: the PID namespace or
// the directory, if a peer needs it.
func (m *posix) extra() []byte {
	switch {
	case m.link && m.ns.Other:
		return m.ns.Append(nil)
	case m.link || m.dir == defaultDir:
		return nil
	}
	return append([]byte(m.dir), 0)
}

func (m *posix) appendAddress(b []byte, id uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(b, id), m.extra()...)
}

func (m *posix) parseAddress(b []byte) (reference, error) {
	a, err := parsePosixAddr(b)
	if err != nil {
		return reference{}, fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	if a.ref.id&idProcFS != 0 {
		if err := m.ns.ReachPID(a.ns); err != nil {
			return reference{}, err
		}
	}
	return a.ref, nil
}

func (m *posix) reachable(ref reference) error {
	if ref.id&idHugeTLB != 0 {
		return fmt.Errorf("peer's ring is in huge pages of a file, set UCX_POSIX_HUGETLB_MODE=n there: %w", ucs.ErrUnreachable)
	}
	if ref.id&(idProcFS|idShmOpen) == 0 && ref.dir != m.dir {
		return fmt.Errorf("peer's memory has files in %q, here it is %q; set UCX_POSIX_DIR to the same: %w",
			ref.dir, m.dir, ucs.ErrUnreachable)
	}
	if pid, _ := procOf(ref.id); ref.id&idProcFS != 0 && (pid == 0 || pid > host.MaxPID) {
		return fmt.Errorf("no process has the id %d: %w", pid, ucs.ErrUnreachable)
	}
	return nil
}

func (m *posix) keyLen() int { return posixKeyLen + len(m.extra()) }

func (m *posix) appendKey(b []byte, s *segment) []byte {
	return appendPosixKey(b, s.id, addressOf(s.mem), uint64(len(s.mem)-s.tail), m.extra())
}

func (m *posix) parseKey(b []byte) (key, error) { return parsePosixKey(b) }

func (m *posix) owner(id uint64) int {
	if id&idProcFS == 0 {
		return 0
	}
	pid, _ := procOf(id)
	return pid
}

// maxAlloc returns the free bytes of the file system, or, for files without a name, which are
// in no file system, the memory and swap of the machine.
func (m *posix) maxAlloc() uint64 {
	var info unix.Sysinfo_t
	var st unix.Statfs_t
	switch {
	case m.link && unix.Sysinfo(&info) == nil:
		return (uint64(info.Totalram) + uint64(info.Totalswap)) * uint64(info.Unit)
	case !m.link && unix.Statfs(m.dir, &st) == nil:
		return st.Bavail * uint64(st.Bsize)
	}
	return math.MaxInt64
}

func (m *posix) create(o segmentOptions) (*segment, error) {
	s := &segment{size: o.size, fd: -1}
	var err error
	if m.link {
		err = m.anonymous(s, o)
	} else {
		err = m.named(s, idOurs|uint64(rand.Uint32()>>1))
	}
	if err != nil {
		return nil, err
	}
	if m.link {
		s.id = procID(m.pid, s.fd, m.ns)
	}
	if s.mem, err = mmap(s.fd, pages(o.size), o.addr, o.fixed); err != nil {
		m.drop(s)
		return nil, errMap(o, err)
	}
	return s, nil
}

// anonymous creates a file without a name. If the kernel has memfd_create(2), the file is sealed
// so that no process can change its size.
func (m *posix) anonymous(s *segment, o segmentOptions) error {
	fd, err := unix.MemfdCreate("ucx_"+o.what, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	sealed := err == nil
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = unix.Open(m.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	}
	if err != nil {
		return errCreate("memfd_create", "memory without a name", s.size, err)
	}
	s.fd, s.shrink = fd, !sealed
	if sealed {
		if err = unix.Fchmod(fd, 0o600); err == nil {
			err = unix.Ftruncate(fd, int64(s.size))
		}
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
		}
	} else {
		err = sys.Allocate(fd, int64(s.size))
	}
	if err != nil {
		unix.Close(fd)
		return errCreate("memfd", m.dir, s.size, err)
	}
	return nil
}

// maxNames is how often another file name is tried after a name turned out to be taken.
const maxNames = 16

// named creates a file that peers find by its name. It allocates all pages of the file, because
// otherwise a full file system would be detected only when a peer writes to the file.
func (m *posix) named(s *segment, number uint64) error {
	for try := 0; ; try++ {
		id := number
		if m.dir == defaultDir {
			id |= idShmOpen
		}
		s.id, s.path, s.shrink = id, filepath.Join(m.dir, fileName(id)), true
		err := s.openLocked(s.path)
		if errors.Is(err, unix.EEXIST) && try < maxNames {
			number = idOurs | uint64(rand.Uint32()>>1)
			continue
		}
		if err != nil {
			return errCreate("creating "+s.path, m.dir, s.size, err)
		}
		return nil
	}
}

// openLocked creates the file of s at path and allocates all its pages. It takes a lock on the
// file, which shows that the file's owner is alive.
func (s *segment) openLocked(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && st.Nlink == 0 || errors.Is(err, unix.EWOULDBLOCK) {
		err = unix.EEXIST // another process has reclaimed the file before it was locked
	}
	if err == nil {
		err = sys.Allocate(fd, int64(s.size))
	}
	if err != nil {
		unix.Close(fd)
		if !errors.Is(err, unix.EEXIST) {
			unix.Unlink(path)
		}
		return err
	}
	s.fd = fd
	return nil
}

func (m *posix) replace(old *segment, o segmentOptions, fill func(*segment) error) (*segment, error) {
	s := &segment{id: old.id, size: o.size, fd: -1}
	if m.link {
		if err := m.anonymous(s, o); err != nil {
			return nil, err
		}
	} else {
		s.path, s.shrink = old.path, true
		if err := s.openLocked(old.path + "." + strconv.Itoa(m.pid)); err != nil {
			return nil, errCreate("replacing "+old.path, m.dir, s.size, err)
		}
	}
	fail := func(err error) (*segment, error) {
		if !m.link {
			unix.Unlink(old.path + "." + strconv.Itoa(m.pid))
		}
		unix.Close(s.fd)
		return nil, err
	}
	var err error
	if s.mem, err = mmap(s.fd, pages(o.size), 0, false); err != nil {
		return fail(errMap(o, err))
	}
	if err = fill(s); err != nil {
		munmap(s.mem)
		return fail(err)
	}
	if m.link {
		// The new file takes the descriptor number of the old file.
		err = unix.Dup3(s.fd, old.fd, unix.O_CLOEXEC)
		if err == nil {
			unix.Close(s.fd)
			s.fd = old.fd
		}
	} else if err = os.Rename(old.path+"."+strconv.Itoa(m.pid), old.path); err == nil {
		unix.Close(old.fd)
	}
	if err != nil {
		munmap(s.mem)
		return fail(fmt.Errorf("shm: replacing a segment: %w", err))
	}
	old.fd, old.path = -1, ""
	return s, nil
}

func (m *posix) destroy(s *segment) error {
	err := munmap(s.mem)
	s.mem = nil
	if e := m.drop(s); err == nil {
		err = e
	}
	return err
}

// drop closes the file of s and removes its name.
func (m *posix) drop(s *segment) (err error) {
	if s.path != "" {
		err = unix.Unlink(s.path)
	}
	if s.fd >= 0 {
		if e := unix.Close(s.fd); err == nil {
			err = e
		}
	}
	s.fd, s.path = -1, ""
	return err
}
