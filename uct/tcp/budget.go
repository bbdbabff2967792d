//go:build linux

package tcp

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// bounds are the limits on the resources that untrusted peers can use, because any process that
// reaches the port can connect. The limits on guests' connections hold for the whole process, the
// others for one worker.
type bounds struct {
	handshake      time.Duration // longest time from accept to the connection request
	halfOpen       int           // connections without a request yet; half for one source
	guests         int           // connections of guests
	guestsOfSource int           // guests' connections from one source
	few            int           // a source with no more connections is never the crowd
	stall          time.Duration // longest pause in a frame, on connections without an endpoint
	partialBytes   int           // bytes of incomplete frames from one source; see forFrames
	acceptPause    time.Duration // pause of accepting when no descriptor is free
}

// limits has the bounds that ifaces get when they are opened. Tests change it.
var limits = bounds{
	handshake:      10 * time.Second,
	halfOpen:       1 << 10,
	guests:         1 << 16,
	guestsOfSource: 1 << 14,
	few:            8,
	stall:          time.Minute,
	partialBytes:   16 << 20,
	acceptPause:    100 * time.Millisecond,
}

// fitting returns b with the limits on connections reduced to what the process's limit on
// descriptors allows.
func (b bounds) fitting() bounds {
	if n := fileCeiling(); n < 1<<30 {
		b.halfOpen = min(b.halfOpen, n/8+1)
		b.guests = min(b.guests, n)
		b.guestsOfSource = min(b.guestsOfSource, n-n/3)
	}
	return b
}

// Limits on bounds.partialBytes if the settings change the size of the largest frame. The bound is
// scaled to hold as many largest frames as by default, but to no more than maxPartialBytes bytes, or
// minPartialFrames largest frames if they are larger. A lower bound would affect honest peers that are
// all in the middle of a frame.
const (
	maxPartialBytes  = 1 << 30 // in bytes
	minPartialFrames = 8       // in frames
)

// forFrames returns b with the field partialBytes scaled for an iface that accepts messages of up to
// seg bytes.
func (b bounds) forFrames(seg int) bounds {
	scaled := int64(b.partialBytes) * int64(max(seg, minRxSeg)) / minRxSeg
	most := max(maxPartialBytes, int64(b.partialBytes), minPartialFrames*int64(seg))
	b.partialBytes = int(min(scaled, most, math.MaxInt))
	return b
}

// minReserve is the least number of descriptors that are reserved for the application, except
// that at most half of all are reserved.
const minReserve = 64

// fileCeiling returns the lowest file descriptor number that is not available to peers. This number
// and all above it are reserved for the application: a quarter of the process's descriptors, at
// least 64 but no more than half. The kernel always allocates the lowest free descriptor, so a
// descriptor at or above the ceiling means that all below it are in use. fileCeiling makes a system
// call.
func fileCeiling() int {
	n, _ := fileCeilings()
	return n
}

// fileCeilings returns two file descriptor numbers. From first on, the result of fileCeiling, the
// connection of a peer may have a descriptor only while another worker has been asked to evict
// connections. From last on, it never may.
func fileCeilings() (first, last int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur >= 1<<30 {
		return 1 << 30, 1 << 30
	}
	n := int(files.Cur)
	reserve := min(max(n/4, minReserve), n/2)
	return n - reserve, n - reserve + reserve/4
}
