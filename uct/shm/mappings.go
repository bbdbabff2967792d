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

// Limits of what peers can make this process map. Files without pages cost a peer nothing. A
// process whose address space is full, or that has reached its limit of mappings
// (vm.max_map_count), crashes, because the Go runtime cannot get memory any more.
//
// The limit of mappings holds for the whole process, so segments of peers may take only a part of
// the mappings that the rest of the program did not use at the last count. Counting takes a
// millisecond for some ten thousand mappings, so mappings are counted seldom: when a quarter of the
// mappings that were free at the last count has been taken, and when none is free.
const (
	// maxAttached is the largest number of attached segments: half of the default of
	// vm.max_map_count.
	maxAttached = 1 << 15

	// firstCount is the number of segments at which the mappings are counted first.
	firstCount = 64

	// countAgain is the shortest time between counts that are made because the limit is
	// reached.
	countAgain = time.Second
)

// mappedTotal counts the attached segments and their bytes.
type mappedTotal struct {
	mu     sync.Mutex
	count  int
	bytes  int
	limit  int           // largest count allowed, as of the last call of the method look
	next   int           // the count at which the method look is called next
	looked time.Duration // time of the last call of the method look

	near bool // the warning that few mappings are free was logged

	mappings func() (have, most int) // replaces readMappings, unless nil
}

// attachedTotal counts the segments that all domains have attached.
var attachedTotal = mappedTotal{limit: maxAttached, next: firstCount}

// take adds a segment of n bytes to the count, or returns an error if a limit is reached.
func (m *mappedTotal) take(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count >= m.next || m.count >= m.limit && sinceLoaded()-m.looked > countAgain {
		m.look()
	}
	switch {
	case m.count >= m.limit:
		m.warn()
		return fmt.Errorf("mapping a segment of the peer: %d segments of peers are mapped already, the limit is %d beside other mappings of the process "+
			"(sysctl vm.max_map_count): %w: %w", m.count, m.limit, ucs.ErrExceedsLimit, ucs.ErrUnreachable)
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

// refused records that the kernel has refused a mapping: fewer mappings are free than the last
// count said, so take counts the mappings again.
func (m *mappedTotal) refused() {
	m.mu.Lock()
	m.next = min(m.next, m.count)
	m.warn()
	m.mu.Unlock()
}

// look counts the mappings of the process and sets the fields limit and next. The segments of peers
// may take three quarters of the mappings that the rest of the process does not use.
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

// warn logs once that few mappings are free.
func (m *mappedTotal) warn() {
	if m.near {
		return
	}
	m.near = true
	log.Warn("segments of peers in shared memory take most of the mappings that the process may have: "+
		"endpoints of dead peers, and idle ones, will be closed; raise sysctl vm.max_map_count",
		zap.Int("segments", m.count), zap.Int("limit", m.limit))
}

// readMappings returns the number of mappings that this process has and the number that it may
// have; most is 0 if that is not known.
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
