//go:build linux

package tcp

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// tlsSeg is the largest copied message: there is no other way for long ones.
const tlsSeg = 32 << 10

// sealed returns the options for connections inside of TLS, where everything is
// copied.
func (o options) sealed() options {
	o.maxIOV, o.maxHdr, o.putEnable = 0, 0, false
	o.sendv = math.MaxInt
	o.txSeg = max(o.txSeg, min(o.rxSeg, tlsSeg))
	return o
}

// What encryption adds to the performance model of tcp. It is enough to be chosen
// only where nothing else goes, or nothing else is allowed.
const (
	tlsOverhead = 20e-6 // seconds a message, of either side
	tlsLatency  = 5e-6
	tlsRate     = 0.5 // of the bandwidth
)

// sealedPerf is the performance model inside of TLS.
func sealedPerf(p uct.Perf) uct.Perf {
	p.Overhead += tlsOverhead
	p.SendOverhead += tlsOverhead
	p.RecvOverhead += tlsOverhead
	p.BandwidthShared *= tlsRate
	p.Latency.C += tlsLatency
	return p
}
