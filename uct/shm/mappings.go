//go:build linux

package shm

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

// Limits of what peers can make this process map. Files without pages cost them
// nothing, and a process whose address space is full, or that has as many mappings
// as it may (vm.max_map_count), ends: Go cannot get memory for its own use any more.
//
// The mappings are shared with the rest of the program, so segments of peers have a
// part of those that it leaves, as of the last count. They are counted seldom, which takes
// a millisecond for some ten thousand of them: when a good part of what was free then has been
// taken, and when nothing is left.
const (
	// maxAttached is the most that there may be of segments: half of what vm.max_map_count
	// is by default.
	maxAttached = 1 << 15

	// firstCount is the number of segments with which the mappings are counted first.
	firstCount = 64

	// countAgain is the shortest time between counts for want of room.
	countAgain = time.Second
)

// mappedTotal counts segments and their bytes.
type mappedTotal struct {
	mu     sync.Mutex
	count  int
	bytes  int
	limit  int           // of count, as of the last look
	next   int           // count of the next look
	looked time.Duration // when that was

	near bool // that there is little room was logged

	mappings func() (have, most int) // those of the process, and how many there may be; nil: of this one
}

// attachedAll is the segments that all domains have attached.
var attachedAll = mappedTotal{limit: maxAttached, next: firstCount}

// take counts a segment of n bytes, if there may be one more.
func (m *mappedTotal) take(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count >= m.next || m.count >= m.limit && sinceLoaded()-m.looked > countAgain {
		m.look()
	}
	switch {
	case m.count >= m.limit:
		m.warn()
		return fmt.Errorf("mapping a segment of the peer: %d segments of peers are mapped already, of at most %d beside what else the process "+
			"has mapped (sysctl vm.max_map_count): %w: %w", m.count, m.limit, ucs.ErrExceedsLimit, ucs.ErrUnreachable)
	case m.bytes+n > maxAttachedBytes:
		m.warn()
		return fmt.Errorf("mapping %d bytes of the peer: %d bytes in %d segments of peers are mapped already: %w: %w",
			n, m.bytes, m.count, ucs.ErrExceedsLimit, ucs.ErrUnreachable)
	}
	m.count++
	m.bytes += n
	return nil
}

func (m *mappedTotal) give(n int) {
	m.mu.Lock()
	m.count--
	m.bytes -= n
	m.mu.Unlock()
}

// refused is told that the kernel has refused a mapping: there are fewer than was thought.
func (m *mappedTotal) refused() {
	m.mu.Lock()
	m.next = min(m.next, m.count)
	m.warn()
	m.mu.Unlock()
}

// look counts the mappings of the process. The segments of peers may take three
// quarters of those that the rest of it leaves.
func (m *mappedTotal) look() {
	read := m.mappings
	if read == nil {
		read = readMappings
	}
	have, most := read()
	m.looked = sinceLoaded()
	m.limit = maxAttached
	if most > 0 {
		m.limit = max(min(m.limit, (most-max(have-m.count, 0))/4*3), 0)
	}
	if m.next = m.count + max((m.limit-m.count)/4, firstCount); m.count > m.limit/8*7 {
		m.warn()
	}
}

// warn says, once, that there is little room.
func (m *mappedTotal) warn() {
	if m.near {
		return
	}
	m.near = true
	log.Warn("segments of peers in shared memory take most of the mappings that the process may have: "+
		"endpoints of dead peers, and idle ones, will be closed; raise sysctl vm.max_map_count",
		zap.Int("segments", m.count), zap.Int("limit", m.limit))
}

// readMappings reads how many mappings this process has, and may have; 0 where that is
// not known.
func readMappings() (have, most int) {
	text, err := sys.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return 0, 0
	}
	if most, err = strconv.Atoi(string(bytes.TrimSpace(text))); err != nil {
		return 0, 0
	}
	fd, err := unix.Open("/proc/self/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0
	}
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case n <= 0 || err != nil:
			return have, most
		}
		have += bytes.Count(buf[:n], []byte{'\n'})
	}
}
