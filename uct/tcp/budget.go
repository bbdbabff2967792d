//go:build linux

package tcp

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// bounds are limits of what strangers can make us keep: anyone who reaches the port
// can connect. Those of connections are for the process, the rest for a worker.
type bounds struct {
	handshake      time.Duration // from accept to the request
	halfOpen       int           // connections without request; of one source half as many
	guests         int           // connections on which the application has no endpoint
	guestsOfSource int
	few            int           // that many a source keeps, whatever others do
	stall          time.Duration // how long the rest of a frame may take, where we have no endpoint
	beginnings     int           // bytes of the beginnings of frames, of one source; see forFrames
	acceptPause    time.Duration // when no descriptor is to be had
}

// limits are the bounds of ifaces that are opened from now on. Tests change
// them.
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

// fitting returns b made smaller where the process may not open that many
// descriptors.
func (b bounds) fitting() bounds {
	if n := fileCeiling(); n < 1<<30 {
		b.halfOpen = min(b.halfOpen, n/8+1)
		b.guests = min(b.guests, n)
		b.guestsOfSource = min(b.guestsOfSource, n-n/3)
	}
	return b
}

// What the settings make of the bound for the beginnings of frames: it holds as many
// largest frames as by default, but no more than mostBegun bytes unless these are fewer
// than leastBegun largest frames. Senders that send at the same time, each in the middle
// of a frame, must not use it up.
const (
	mostBegun  = 1 << 30 // bytes
	leastBegun = 8       // frames
)

// forFrames returns b for an iface that accepts messages of so many bytes.
func (b bounds) forFrames(seg int) bounds {
	scaled := int64(b.beginnings) * int64(max(seg, minRxSeg)) / minRxSeg
	most := max(mostBegun, int64(b.beginnings), leastBegun*int64(seg))
	b.beginnings = int(min(scaled, most, math.MaxInt))
	return b
}

// minReserve is the least number of descriptors that are for the application alone.
const minReserve = 64

// fileCeiling is the first descriptor that peers do not get: those above it, a
// quarter of the process's and 64 at least, are for the application. The kernel gives
// the lowest number that is free, so who gets a higher one knows that all below are
// in use, whoever uses them. It makes a system call.
func fileCeiling() int {
	n, _ := fileCeilings()
	return n
}

// fileCeilings returns, beside that, the first descriptor that no peer gets in any case.
// Between the two it gets one while another worker, which has the crowd, has been asked
// to make room.
func fileCeilings() (first, last int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur >= 1<<30 {
		return 1 << 30, 1 << 30
	}
	n := int(files.Cur)
	reserve := min(max(n/4, minReserve), n/2)
	return n - reserve, n - reserve + reserve/4
}
