//go:build linux

package tcp

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// tlsSeg is the length in bytes to which the limit of copied messages is raised, but not above
// RX_SEG_SIZE: there is no other way to send long messages.
const tlsSeg = 32 << 10

// sealed returns the options for connections inside TLS, where all messages are copied.
func (o options) sealed() options {
	o.maxIOV, o.maxHdr, o.putEnable = 0, 0, false
	o.sendv = math.MaxInt
	o.txSeg = max(o.txSeg, min(o.rxSeg, tlsSeg))
	return o
}

// The cost that encryption adds to the performance model of tcp. It is high enough that tls is
// chosen only if no other transport reaches the peer or is allowed.
const (
	tlsOverhead = 20e-6 // seconds for each message, on each side
	tlsLatency  = 5e-6  // seconds
	tlsRate     = 0.5   // factor of the bandwidth
)

// sealedPerf returns the performance model of connections inside TLS, given that of tcp.
func sealedPerf(p uct.Perf) uct.Perf {
	p.Overhead += tlsOverhead
	p.SendOverhead += tlsOverhead
	p.RecvOverhead += tlsOverhead
	p.BandwidthShared *= tlsRate
	p.Latency.C += tlsLatency
	return p
}
