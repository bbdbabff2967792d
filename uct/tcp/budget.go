//go:build linux

package tcp

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// bounds are limits on what unknown peers can make this process keep: any process that reaches
// the port can connect. The limits on guests' connections are for the process, the rest for a
// worker.
type bounds struct {
	handshake      time.Duration // from accept to the request
	halfOpen       int           // connections without a request; half as many for one source
	guests         int           // connections on which the application has no endpoint
	guestsOfSource int
	few            int           // connections that a source keeps whatever other sources do
	stall          time.Duration // for the rest of a frame, on connections without an endpoint
	beginnings     int           // bytes of incomplete frames, of one source; see forFrames
	acceptPause    time.Duration // pause of accept when there is no free descriptor
}

// limits are the bounds of ifaces that are opened from now on. Tests change limits.
var limits = bounds{
	handshake:      10 * time.Second,
	halfOpen:       1 << 10,
	guests:         1 << 16,
	guestsOfSource: 1 << 14,
	few:            8,
	stall:          time.Minute,
	beginnings:     16 << 20,
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

// Limits on bounds.beginnings when the settings change the largest frame. The bound holds as
// many largest frames as by default, but no more than mostBegun bytes, unless mostBegun is less
// than leastBegun largest frames. Senders that send at the same time, each in the middle of a
// frame, must not use the bound up.
const (
	mostBegun  = 1 << 30 // bytes
	leastBegun = 8       // frames
)

// forFrames returns b for an iface that accepts messages of seg bytes.
func (b bounds) forFrames(seg int) bounds {
	scaled := int64(b.beginnings) * int64(max(seg, minRxSeg)) / minRxSeg
	most := max(mostBegun, int64(b.beginnings), leastBegun*int64(seg))
	b.beginnings = int(min(scaled, most, math.MaxInt))
	return b
}

// minReserve is the least number of descriptors that are reserved for the application, except
// that at most half of all are reserved.
const minReserve = 64

// fileCeiling returns the first descriptor that peers do not get. It and those above it, a
// quarter of the process's descriptors and at least 64 but no more than half, are reserved for
// the application. The kernel always allocates the lowest free descriptor, so a descriptor at
// or above the ceiling means that all below it are in use. fileCeiling makes a system call.
func fileCeiling() int {
	n, _ := fileCeilings()
	return n
}

// fileCeilings returns fileCeiling as first, and as last the first descriptor that no peer gets
// in any case. A peer gets a descriptor between the two while another worker, which has the
// crowd's connections, has been asked to make room.
func fileCeilings() (first, last int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur >= 1<<30 {
		return 1 << 30, 1 << 30
	}
	n := int(files.Cur)
	reserve := min(max(n/4, minReserve), n/2)
	return n - reserve, n - reserve + reserve/4
}
