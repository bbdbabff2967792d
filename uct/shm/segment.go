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
	id     uint64 // as peers name it
	size   int    // bytes asked for
	mem    []byte // size rounded up to whole pages
	tail   int    // bytes at the end of mem that keys do not open
	shrink bool   // others can cut it short
	fd     int    // posix: of the file, kept open for the segment's life
	path   string // posix: of a file with a name
}

// Fault implements fault.Owner, for a segment that is being made or given up.
func (s *segment) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, s.mem) {
		return nil
	}
	return fmt.Errorf("shm: another process has truncated the new ring: %w", ucs.ErrShmemSegment)
}

// segmentOptions say what to create.
type segmentOptions struct {
	size    int    // bytes, positive
	addr    uint64 // where, 0: anywhere
	fixed   bool   // there and nowhere else
	mayHuge bool   // huge pages are welcome
	what    string // for error texts
}

// reference names a peer's segment.
type reference struct {
	id  uint64
	dir string // posix: directory of a file that is neither in /dev/shm nor a link
}

// key is a remote key as it travels. Where it has no length, length is 0.
type key struct {
	ref    reference
	base   uint64 // address of the segment in its owner
	length uint64
}

// object is a peer's segment, found but not yet mapped.
type object struct {
	ident  identity
	size   int
	shrink bool // it can get shorter
	owner  int  // process that made it, by its number here; 0: unknown, -1: not visible here
	fd     int  // posix
}

// identity tells objects apart for as long as somebody holds them: device and
// inode of a file, or the number of a System V segment.
type identity struct{ dev, ino uint64 }

// mapper is one way of sharing memory. Its methods may be called from any
// goroutine.
type mapper interface {
	create(o segmentOptions) (*segment, error)

	// replace creates a segment and, when fill has filled it, lets it take the
	// place of old, under the same id if the mapper can. The memory of old stays
	// mapped.
	replace(old *segment, o segmentOptions, fill func(*segment) error) (*segment, error)

	// destroy unmaps s and lets go of it. Peers that have attached it keep it.
	destroy(s *segment) error

	appendAddress(b []byte, id uint64) []byte
	parseAddress(b []byte) (reference, error)

	// reachable checks a parsed address without opening anything.
	reachable(ref reference) error

	keyLen() int
	appendKey(b []byte, s *segment) []byte
	parseKey(b []byte) (key, error)

	// process says whose segment a reference names as far as that can be told without
	// opening it: the number of a process, 0 where it cannot.
	process(ref reference) (int, error)

	// open finds a peer's segment; close must follow. mmap maps it, and knows
	// better whether it can shrink; unmap ends that.
	// With a process's number the segment must be that process's, as far as the
	// kernel can tell.
	open(ref reference, pid int) (object, error)
	mmap(o *object) ([]byte, error)
	close(o object)
	unmap(mem []byte) error

	// names reports whether ref still names a segment that is mapped here.
	names(ref reference, ident identity) bool

	// abandoned reports whether its owner has let go of it.
	abandoned(ref reference, ident identity) bool

	// unowned reports whether the owner of a ring that is mapped here certainly has it
	// no more, which the kernel need not know.
	unowned(ref reference, ident identity) bool

	// held reports whether anybody but its owner may have s attached, another
	// domain of this process included. With an error that is not known.
	held(s *segment) (bool, error)

	// owner is the process id in the id of a segment, 0 where there is none.
	owner(id uint64) int

	maxAlloc() uint64
}

var pageSize = os.Getpagesize()

// pages rounds n up to whole pages.
func pages(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }
