//go:build linux

package shm

import (
	"fmt"
	"os"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
)

// segment is shared memory that this process owns.
type segment struct {
	id     uint64 // the name that peers use
	size   int    // bytes requested
	mem    []byte // size rounded up to whole pages
	tail   int    // bytes at the end of mem that keys do not open
	shrink bool   // other processes can take memory of the segment away
	fd     int    // posix: descriptor of the file, kept open for the segment's life
	path   string // posix: path of a file with a name
}

// Fault implements fault.Owner, for a segment that is being created or closed.
func (s *segment) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, s.mem) {
		return nil
	}
	return fmt.Errorf("shm: another process has truncated the new ring: %w", ucs.ErrShmemSegment)
}

// segmentOptions describe a segment to create.
type segmentOptions struct {
	size    int    // bytes, positive
	addr    uint64 // address of the mapping, a hint unless fixed; 0: anywhere
	fixed   bool   // fail if the mapping cannot be at addr
	mayHuge bool   // huge pages may be used
	what    string // purpose, for the name of the memory file
}

// reference names a peer's segment.
type reference struct {
	id  uint64
	dir string // posix: directory of a file that is neither in /dev/shm nor a link
}

// key is a parsed remote key. length is 0 if the packed key has no length (sysv).
type key struct {
	ref    reference
	base   uint64 // address of the segment in its owner
	length uint64
}

// object is a peer's segment that was found but is not mapped yet.
type object struct {
	ident  identity
	size   int
	shrink bool // other processes can take its memory away
	owner  int  // process that made it, by its id in this PID namespace; 0: unknown, -1: not visible here
	fd     int  // posix: descriptor of the file; sysv: -1
}

// identity tells objects apart for as long as any process holds them: device and
// inode of a file, or the id of a System V segment.
type identity struct{ dev, ino uint64 }

// mapper is one way of sharing memory. Its methods may be called from any
// goroutine.
type mapper interface {
	create(o segmentOptions) (*segment, error)

	// replace creates a segment and, after fill has filled the new segment, lets it
	// take the place of old, under the same id if the mapper can. The memory of old
	// stays mapped.
	replace(old *segment, o segmentOptions, fill func(*segment) error) (*segment, error)

	// destroy unmaps s and closes it. Peers that have attached s keep its memory.
	destroy(s *segment) error

	appendAddress(b []byte, id uint64) []byte
	parseAddress(b []byte) (reference, error)

	// reachable checks a parsed address without opening anything.
	reachable(ref reference) error

	keyLen() int
	appendKey(b []byte, s *segment) []byte
	parseKey(b []byte) (key, error)

	// process returns the id of the process whose segment a reference names, or 0 if
	// that cannot be told without opening the segment.
	process(ref reference) (int, error)

	// open finds a peer's segment; close must follow. If pid is not 0 the segment
	// must belong to process pid, as far as the kernel can tell. mmap maps the
	// object, and corrects its shrink if the kernel tells more; unmap removes the
	// mapping.
	open(ref reference, pid int) (object, error)
	mmap(o *object) ([]byte, error)
	close(o object)
	unmap(mem []byte) error

	// names reports whether ref still names a segment that is mapped here.
	names(ref reference, ident identity) bool

	// abandoned reports whether the owner of a segment that is mapped here has freed
	// the segment.
	abandoned(ref reference, ident identity) bool

	// unowned reports whether the owner of a ring that is mapped here certainly does not have
	// the ring any more. False can also mean that this cannot be determined.
	unowned(ref reference, ident identity) bool

	// held reports whether anything but the owner of s may have s attached, another domain of
	// this process included. If held returns an error, that is not known.
	held(s *segment) (bool, error)

	// owner returns the process id that is part of a segment's id, 0 if there is none.
	owner(id uint64) int

	maxAlloc() uint64
}

var pageSize = os.Getpagesize()

// pages rounds n up to whole pages.
func pages(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }
