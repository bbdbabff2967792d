package proto

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// remote is an entry of the peer's address.
type remote struct {
	dev   *AddressDevice
	iface *AddressIface

	// device is the number of the peer's device. Devices with the same known system device
	// have the same number (ucp_address_get_remote_device_index).
	device int
}

func remoteList(a *WorkerAddress) []remote {
	var list []remote
	devices := 0
	bySys := map[uint8]int{}
	for i := range a.Devices {
		d := &a.Devices[i]
		device, known := bySys[d.SysDev]
		if !known || d.SysDev == SysDevUnknown {
			device = devices
			devices++
			bySys[d.SysDev] = device
		}
		for f := range d.Ifaces {
			list = append(list, remote{d, &d.Ifaces[f], device})
		}
	}
	return list
}

// scoreEpsilon is the relative difference below which scores count as equal
// (ucs_fp_compare_thresh).
const scoreEpsilon = 1e-6

// compareScores returns the sign of a − b, or 0 if they count as equal.
func compareScores(a, b float64) int {
	switch d := a - b; {
	case math.Abs(d) < (a+b)*scoreEpsilon, d == 0:
		return 0
	case d > 0:
		return 1
	}
	return -1
}

// comparePriority compares scores, and if they count as equal, device priorities. The result is
// positive if a is better, negative if b is better.
func comparePriority(a float64, aPrio int, b float64, bPrio int) int {
	if c := compareScores(a, b); c != 0 {
		return c
	}
	return aPrio - bPrio
}

// paths are the device pairs that lanes use so far. The scores of further lanes depend on them.
type paths []path

// path is a local device and a device of the peer.
type path struct{ local, remote int }

// local counts the uses of a local device.
func (p paths) local(device int) (n int) {
	for i := range p {
		if p[i].local == device {
			n++
		}
	}
	return n
}

// remote counts the uses of a device of the peer.
func (p paths) remote(device int) (n int) {
	for i := range p {
		if p[i].remote == device {
			n++
		}
	}
	return n
}

// scorer computes the scores of src/ucp/wireup/select.c. Higher is better. It limits implausible
// values, so that a score is always positive and finite.
type scorer struct {
	v2        bool // the peer has sent address v2, which contains rounded numbers
	announced bool // the peer announces a release, which is 1.16 or later
	endpoints float64
	ppn       int // processes that share the local bandwidth

	pathRatio float64 // part of a device's bandwidth that a lane uses; 0: that of one path
}

func newScorer(in *LaneInput) scorer {
	return scorer{v2: in.Remote.Version == AddressV2, announced: in.Remote.Release > 0, endpoints: math.Max(1, float64(in.NumEndpoints)), ppn: in.PPN, pathRatio: in.Limits.orDefault().PathRatio}
}

// seconds limits a time to 0..1 s. NaN gives 0.
func seconds(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return math.Min(v, 1)
}

// rate limits a bandwidth to 1..1e18 bytes per second. NaN gives 1.
func rate(v float64) float64 {
	if !(v >= 1) {
		return 1
	}
	return math.Min(v, 1e18)
}

// inverse returns unit divided by t, a sum of times in seconds. The result is finite if t is 0.
func inverse(unit, t float64) float64 { return unit / math.Max(t, 1e-12) }

// latency returns the mean latency of both sides (ucp_wireup_tl_iface_latency). v1 does not
// announce the growth per endpoint, so the local growth counts for both sides. With v2 the local
// latency is rounded like the peer's.
func (s scorer) latency(l *LocalIface, r remote) float64 {
	theirs := seconds(r.iface.Attr.Latency)
	growth := seconds(l.Attr.Perf.Latency.M) * s.endpoints
	if s.v2 {
		ours := seconds(l.Attr.Perf.Latency.C) + growth
		return (theirs + fp8Latency.unpack(fp8Latency.packSeconds(ours))/nsecPerSec) / 2
	}
	return (seconds(l.Attr.Perf.Latency.C)+theirs)/2 + growth
}

// bandwidth returns the smaller bandwidth of both sides (ucp_wireup_iface_score_bandwidth).
func (s scorer) bandwidth(l *LocalIface, r remote) float64 {
	return math.Min(s.ours(l), rate(r.iface.Attr.Bandwidth))
}

// ours returns the local bandwidth as the peer sees it.
func (s scorer) ours(l *LocalIface) float64 {
	b := rate(l.Attr.Perf.Bandwidth(s.ppn))
	if s.v2 {
		b = fp8Bandwidth.round(b)
	}
	return b
}

// available returns the bandwidth that is left on partly used devices
// (ucp_wireup_iface_avail_bandwidth).
func (s scorer) available(l *LocalIface, r remote, p paths) float64 {
	const epsilon = 1e-3
	share := func(used, n int) float64 {
		taken := float64(used) / float64(max(n, 1))
		if s.pathRatio > 0 {
			taken = float64(used) * s.pathRatio
		}
		return math.Max(1e-5, 1-taken)
	}
	ours := s.ours(l) * share(p.local(l.Device), l.Attr.NumPaths)
	theirs := rate(r.iface.Attr.Bandwidth) * share(p.remote(r.device), int(r.dev.NumPaths))
	return math.Min(ours, theirs) + epsilon*(ours+theirs)
}

// am rates lanes for active messages and wireup by end-to-end latency.
func (s scorer) am(l *LocalIface, r remote, _ paths) float64 {
	return inverse(1e-3, s.latency(l, r)+seconds(l.Attr.Perf.Overhead)+seconds(r.iface.Attr.Overhead))
}

// keepalive rates by end-to-end latency, and by the number of endpoints that can send at the same
// time: transports whose endpoints share send resources come after all others.
func (s scorer) keepalive(l *LocalIface, r remote, p paths) float64 {
	score := s.am(l, r, p)
	if n := l.Attr.MaxInflightEPs; n > 0 {
		score *= float64(n) / math.MaxUint64 // SIZE_MAX of C
	}
	return score
}

// rma rates by the time to transfer 4 KiB.
func (s scorer) rma(l *LocalIface, r remote, _ paths) float64 {
	return inverse(1e-3, s.latency(l, r)+seconds(l.Attr.Perf.Overhead)+4096/s.bandwidth(l, r))
}

// amo rates by one-sided latency.
func (s scorer) amo(l *LocalIface, r remote, _ paths) float64 {
	return inverse(1e-3, s.latency(l, r)+seconds(l.Attr.Perf.Overhead))
}

// rmaBW rates by the time to transfer 256 KiB.
func (s scorer) rmaBW(l *LocalIface, r remote, p paths) float64 {
	const size = 262144
	return inverse(1, size/s.available(l, r, p)+s.latency(l, r)+seconds(l.Attr.Perf.Overhead)+s.registering(l, size))
}

// registering returns the time to register size bytes of memory, in seconds, as C UCX estimates it.
// Both sides must choose the same lanes, so the actual cost on this side does not matter. C UCX has
// a registration cache: from 1.16 on, it counts the same lookup time for every domain toward a peer
// that announces no release, such as this library (ucp_wireup_mem_reg_cost). Before 1.16 only
// InfiniBand domains had the cache, and the others counted their registration cost (md_attr.reg_cost
// in src/ucp/wireup/select.c). Of the domains that this library has, only those of InfiniBand cost
// more than the lookup.
func (s scorer) registering(l *LocalIface, size float64) float64 {
	const lookup = 180e-9
	if s.announced {
		return lookup
	}
	own := uct.Linear{C: seconds(l.Domain.RegCost.C), M: seconds(l.Domain.RegCost.M)}
	return math.Min(own.At(size), lookup)
}

// amBW rates by the throughput of the longest message.
func (s scorer) amBW(l *LocalIface, r remote, p paths) float64 {
	size := float64(max(l.Attr.AM.MaxBcopy, 1))
	if seg := r.iface.Attr.SegSize; seg > 0 {
		size = math.Min(size, float64(seg))
	}
	t := size/s.available(l, r, p) + s.latency(l, r) + seconds(l.Attr.Perf.Overhead) + seconds(r.iface.Attr.Overhead)
	return inverse(size*1e-5, t)
}
