//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// sysv is the mapper of the transport sysv, which shares System V segments. A segment is marked for
// removal as soon as it is attached, so that nothing is left when the process ends; Linux lets
// peers attach a marked segment all the same. The size of a segment never changes. But any process
// that has a segment of huge pages attached can free its pages (MADV_REMOVE), and touching a freed
// page is a fault while the machine has no other huge pages: such a segment counts as one that can
// shrink.
type sysv struct {
	huge  config.Ternary
	users host.Users
}

var _ mapper = (*sysv)(nil)

// sysvAddrLen is the length of addresses, which consist of an id.
const sysvAddrLen = 8

// sysvKeyLen is the length of a packed key: u32 id, u64 address
// (uct_sysv_packed_rkey_t in src/uct/sm/mm/sysv/mm_sysv.c).
const sysvKeyLen = 12

// shmHugeTLB is SHM_HUGETLB of linux/shm.h.
const shmHugeTLB = 0o4000

func (m *sysv) create(o segmentOptions) (*segment, error) {
	const mode = unix.IPC_CREAT | 0o600
	s := &segment{size: pages(o.size), fd: -1}
	var id int
	var get, err error
	huge := m.hugeSize(o)
	if s.shrink = huge > 0; s.shrink {
		id, s.mem, get, err = newSysv(huge, mode|shmHugeTLB, o.addr, o.fixed)
		if s.shrink = get == nil || m.huge == config.Yes; s.shrink {
			s.size = huge
		}
	}
	if !s.shrink {
		id, s.mem, get, err = newSysv(s.size, mode, o.addr, o.fixed)
	}
	switch {
	case get != nil:
		return nil, errShmget(s.size, s.shrink, get)
	case errors.Is(err, unix.EINVAL) && o.fixed:
		return nil, errMap(o, unix.EEXIST)
	case err != nil:
		return nil, errMap(o, err)
	}
	s.id = uint64(id)
	return s, nil
}

// hugeSize returns the size in bytes of a segment of huge pages, or 0 if the segment is to have
// small pages. Huge pages are used if the system has them, no address is requested, the settings
// and o allow them, and no more memory is wasted than used. The ring and receive buffers have huge
// pages only with UCX_SYSV_HUGETLB_MODE=y, which ignores the waste: peers can take huge pages away.
func (m *sysv) hugeSize(o segmentOptions) int {
	h := hugePageSize()
	if h == 0 || o.addr != 0 || m.huge == config.No || m.huge != config.Yes && !o.mayHuge {
		return 0
	}
	small := pages(o.size)
	if huge := (small + h - 1) &^ (h - 1); m.huge == config.Yes || huge <= 2*small {
		return huge
	}
	return 0
}

func (m *sysv) replace(_ *segment, o segmentOptions, fill func(*segment) error) (*segment, error) {
	s, err := m.create(o)
	if err != nil {
		return nil, err
	}
	if err := fill(s); err != nil {
		m.destroy(s)
		return nil, err
	}
	return s, nil
}

func (m *sysv) destroy(s *segment) error {
	err := unix.SysvShmDetach(s.mem)
	s.mem = nil
	return err
}

func (m *sysv) appendAddress(b []byte, id uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, id)
}

func (m *sysv) parseAddress(b []byte) (reference, error) {
	if len(b) != sysvAddrLen {
		return reference{}, fmt.Errorf("interface address of %d bytes, not %d: %w: %w",
			len(b), sysvAddrLen, ucs.ErrInvalidAddr, ucs.ErrUnreachable)
	}
	return reference{id: binary.LittleEndian.Uint64(b)}, nil
}

func (m *sysv) reachable(ref reference) error {
	if ref.id > math.MaxInt32 {
		return fmt.Errorf("no System V segment has the id %#x: %w", ref.id, ucs.ErrUnreachable)
	}
	return nil
}

func (m *sysv) keyLen() int { return sysvKeyLen }

func (m *sysv) appendKey(b []byte, s *segment) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(s.id))
	return binary.LittleEndian.AppendUint64(b, addressOf(s.mem))
}

func (m *sysv) parseKey(b []byte) (key, error) {
	if len(b) != sysvKeyLen {
		return key{}, fmt.Errorf("remote key of %d bytes, not %d: %w", len(b), sysvKeyLen, ucs.ErrInvalidParam)
	}
	return key{
		ref:  reference{id: uint64(binary.LittleEndian.Uint32(b))},
		base: binary.LittleEndian.Uint64(b[4:]),
	}, nil
}

func (m *sysv) owner(uint64) int { return 0 }

func (m *sysv) maxAlloc() uint64 {
	return min(readLimit("/proc/sys/kernel/shmmax", math.MaxInt64), math.MaxInt64)
}

// look queries the kernel for a segment. owner is the process that created the segment, -1 if that
// process is not visible in this PID namespace.
func (m *sysv) look(ref reference) (d unix.SysvShmDesc, owner int, err error) {
	if err := m.reachable(ref); err != nil {
		return d, 0, err
	}
	if _, err := unix.SysvShmCtl(int(ref.id), unix.IPC_STAT, &d); err != nil {
		return d, 0, errShm("querying", ref.id, err)
	}
	if d.Segsz == 0 || uint64(d.Segsz) > maxObject {
		return d, 0, fmt.Errorf("segment %d of System V has %d bytes: %w", ref.id, d.Segsz, ucs.ErrUnreachable)
	}
	owner = int(d.Cpid) // the kernel translates the process id to this PID namespace
	if owner == 0 {
		return d, -1, nil
	}
	return d, owner, checkCreator(ref.id, owner, &d)
}

func (m *sysv) process(ref reference) (int, error) {
	_, owner, err := m.look(ref)
	if err == nil && owner < 0 {
		err = fmt.Errorf("the creator of System V segment %d is not visible in this PID namespace: %w", ref.id, ucs.ErrUnreachable)
	}
	return owner, err
}

func (m *sysv) open(ref reference, pid int) (object, error) {
	d, owner, err := m.look(ref)
	if err != nil {
		return object{}, err
	}
	if pid != 0 && owner != pid {
		return object{}, fmt.Errorf("segment %d of System V was created by process %d, not by %d: %w", ref.id, owner, pid, ucs.ErrUnreachable)
	}
	if err := m.users.Check(int(d.Perm.Cuid)); err != nil {
		return object{}, fmt.Errorf("segment %d of System V: %w", ref.id, err)
	}
	h := hugePageSize()
	return object{
		ident:  identity{ino: ref.id},
		size:   int(d.Segsz),
		shrink: h > 0 && int(d.Segsz)%h == 0, // mmap finds out
		owner:  owner,
		fd:     -1,
	}, nil
}

func (m *sysv) mmap(o *object) ([]byte, error) {
	mem, err := unix.SysvShmAttach(int(o.ident.ino), 0, 0)
	if err != nil {
		return nil, errShm("attaching", o.ident.ino, err)
	}
	if len(mem) < o.size { // the id was given to another segment in between
		unix.SysvShmDetach(mem)
		return nil, errShm("attaching", o.ident.ino, unix.EIDRM)
	}
	if o.shrink {
		// The kernel does not tell which pages a segment has. It refuses MADV_COLD,
		// which changes nothing worth mentioning, for huge pages; a kernel before
		// 5.4 always refuses it.
		o.shrink = unix.Madvise(mem[:pageSize], unix.MADV_COLD) != nil
	}
	return mem[:o.size], nil
}

// names returns true, because the kernel reuses an id only when no process has the segment
// attached.
func (m *sysv) names(reference, identity) bool { return true }

// abandoned reports whether no other process has the segment attached, or the last operation
// on the segment was a detach by its owner. The second can be wrong if a process attaches its
// own segment.
func (m *sysv) abandoned(_ reference, ident identity) bool {
	var d unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(int(ident.ino), unix.IPC_STAT, &d); err != nil {
		return false
	}
	return d.Nattch <= 1 || d.Lpid == d.Cpid && d.Dtime >= d.Atime
}

// unowned reports whether only this process has the segment attached.
func (m *sysv) unowned(_ reference, ident identity) bool {
	var d unix.SysvShmDesc
	_, err := unix.SysvShmCtl(int(ident.ino), unix.IPC_STAT, &d)
	return err == nil && d.Nattch <= 1
}

func (m *sysv) close(object) {}

func (m *sysv) unmap(mem []byte) error { return unix.SysvShmDetach(mem) }
