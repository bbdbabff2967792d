//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

func init() {
	for _, s := range []struct {
		name, prefix string
		domain       func() any
	}{
		{sysvName, "SYSV_", func() any { return new(sysvDomainSettings) }},
		{posixName, "POSIX_", func() any { return new(posixDomainSettings) }},
	} {
		config.Register(config.Section{
			Name: s.name + " memory domain", Prefix: s.prefix,
			Title: s.name + " memory domain", New: s.domain,
		})
		config.Register(config.Section{
			Name: s.name, Prefix: s.prefix,
			Title: s.name + " transport", New: func() any { return new(ifaceSettings) },
			Check: func(cfg *config.Set) error { _, err := loadOptions(cfg, s.name, uct.IfaceParams{}); return err },
		})
	}
}

// sysvDomainSettings are read when a sysv domain is opened
// (uct_mm_md_config_table).
type sysvDomainSettings struct {
	MM sysvHuge `prefix:"MM_"`
}

type sysvHuge struct {
	Huge config.Ternary `ucx:"HUGETLB_MODE" default:"try" doc:"Allocate memory in huge pages: y means always, including rings and receive buffers; try means where they are available and worth it. A hostile peer can free huge pages of this process; access is then a fault, which transports survive and programs may not."`
}

// posixDomainSettings are read when a posix domain is opened
// (uct_posix_md_config_table). SHM_MIN_SIZE of C UCX is left out: memory comes from the file
// system only if USE_PROC_LINK is off, and then its pages are allocated at once.
type posixDomainSettings struct {
	MM          posixHuge `prefix:"MM_"`
	Dir         string    `ucx:"DIR" default:"/dev/shm" doc:"Directory of named shared memory files. Processes that communicate must use the same."`
	UseProcLink bool      `ucx:"USE_PROC_LINK" default:"y" doc:"Share unnamed memory through /proc/PID/fd. With n memory has files in DIR. Processes that communicate must have the same value."`
}

type posixHuge struct {
	Huge config.Ternary `ucx:"HUGETLB_MODE" default:"try" doc:"Use huge pages. Shared memory files have none, so y is refused."`
}

// ifaceSettings are read when an interface is opened (uct_mm_iface_config_table,
// uct_sm_iface_config_table).
type ifaceSettings struct {
	MM mmSettings `prefix:"MM_"`
}

// smSettings are the settings of all transports between processes of one host, with the defaults of
// posix and sysv.
type smSettings struct {
	Common commonSettings   `prefix:""`
	BW     config.Bandwidth `ucx:"BW" default:"15360MBs" doc:"Memory bandwidth to assume."`
}

// commonSettings are the settings that all transports have (uct_iface_config_table).
type commonSettings struct {
	Failure   log.Level    `ucx:"FAILURE" default:"DIAG" doc:"Log level of endpoint failures without an error handler."`
	MaxNumEPs config.Count `ucx:"MAX_NUM_EPS" default:"inf" doc:"Expected maximum number of endpoints (scaling hint, not a limit). If the program or UCX_NUM_EPS expects more, the transport is used only to peers that no other transport with a sufficient number reaches."`
}

type mmSettings struct {
	SM            smSettings   `prefix:"SM_"`
	FifoSize      uint         `ucx:"FIFO_SIZE" default:"256" doc:"Number of elements in the receive ring, a power of two. C UCX assumes that its peers have the same number. The default of C UCX up to 1.15 is 64, which is also the default here if UCX_PEER_RELEASE is such a release."`
	SegSize       config.Bytes `ucx:"SEG_SIZE" default:"8256" doc:"Size of receive buffers, and the largest message that is sent by copying it, at most 65535 bytes: with a larger value C UCX sends longer messages and loses them. Must be the same in all processes."`
	ReleaseFactor float64      `ucx:"FIFO_RELEASE_FACTOR" default:"0.5" doc:"Part of the ring that is received before its elements are returned to senders, from 0 to less than 1."`
	RxMaxBufs     int          `ucx:"RX_MAX_BUFS" default:"-1" doc:"Largest number of receive buffers, including those in the ring; -1 means no limit."`
	RxBufsGrow    uint         `ucx:"RX_BUFS_GROW" default:"512" doc:"Number of receive buffers to add when all are in use."`
	RxGrowFactor  float64      `ucx:"RX_GROW_FACTOR" default:"1.0" doc:"Factor by which RX_BUFS_GROW grows each time, at least 1.0."`
	RxMaxChunk    config.Bytes `ucx:"RX_MAX_CHUNK_SIZE" default:"128M" doc:"Largest size of a chunk of receive buffers."`
	FifoHuge      bool         `ucx:"FIFO_HUGETLB" default:"n" doc:"Use huge pages for the ring. Peers could not read its length from them, so y is refused."`
	FifoElemSize  uint         `ucx:"FIFO_ELEM_SIZE" default:"128" doc:"Size of a ring's elements. Must be the same in all processes."`
	FifoMaxPoll   config.Count `ucx:"FIFO_MAX_POLL" default:"16" doc:"Largest number of messages to receive in one round of progress."`
	ErrorHandling bool         `ucx:"ERROR_HANDLING" default:"n" doc:"Announce that failures of peers are detected."`
	SendOverhead  overhead     `ucx:"SEND_OVERHEAD" default:"am_short:10ns,am_bcopy:10ns" doc:"Time a send takes."`
	RecvOverhead  overhead     `ucx:"RECV_OVERHEAD" default:"am_short:10ns,am_bcopy:10ns" doc:"Time a receive takes."`
}

// overhead is a list of times by operation, such as "am_short:10ns,am_bcopy:20ns", or one time
// for both.
type overhead struct{ short, bcopy config.Time }

var overheadKeys = []string{"am_short", "am_bcopy"}

// ParseConfig implements config.Value.
func (o *overhead) ParseConfig(s string) error {
	return config.ParseKeyed(s, overheadKeys, func(key int, value string) error {
		var t config.Time
		if err := t.ParseConfig(value); err != nil {
			return err
		}
		if t.IsAuto() || t == config.TimeInf {
			return errors.New("expected a number")
		}
		*[]*config.Time{&o.short, &o.bcopy}[key] = t
		return nil
	})
}

// extra returns the time that a copied message takes beyond a short one, in seconds.
func (o overhead) extra() float64 { return seconds(o.bcopy) - seconds(o.short) }

// String implements config.Value.
func (o overhead) String() string {
	return "am_short:" + o.short.String() + ",am_bcopy:" + o.bcopy.String()
}

// ConfigSyntax implements config.Syntaxer.
func (overhead) ConfigSyntax() string {
	return config.KeyedSyntax(overheadKeys, "time value: <number>[m|s|ms|us|ns]")
}

// seconds converts a time for the performance model.
func seconds(t config.Time) float64 { return t.Duration(0).Seconds() }

// options are the settings of an interface, validated and with defaults filled in.
type options struct {
	ring      int    // number of elements in the own ring
	elem      int    // size of an element, in peers' rings as well, in bytes
	seg       int    // bytes for a message in a receive buffer, in peers' buffers as well
	bcopy     int    // bytes of the largest buffered message
	release   uint64 // the tail is published when these bits of the number received are zero
	maxBufs   int
	growBufs  int
	growBy    float64 // factor by which growBufs grows each time
	maxChunk  int
	maxPoll   int
	maxNumEPs int
	handling  bool
	failure   log.Level
	perf      uct.Perf
}

// ring113 is the default number of elements up to release 1.15 of C UCX.
const ring113 = 64

// loadOptions reads the settings of an interface of a transport.
func loadOptions(cfg *config.Set, transport string, p uct.IfaceParams) (options, error) {
	var s ifaceSettings
	if err := cfg.Load(transport, &s); err != nil {
		return options{}, err
	}
	prefix := strings.ToUpper(transport) + "_"
	bad := func(name string, value any, want string) (options, error) {
		return options{}, fmt.Errorf("shm: UCX_%s%s is %v, not %s: %w", prefix, name, value, want, ucs.ErrInvalidParam)
	}
	mm := &s.MM
	if _, from, ok := cfg.Lookup(prefix + "FIFO_SIZE"); p.PeerRelease == uct.PeerRelease113 && ok && from.Kind == config.FromDefault {
		mm.FifoSize = ring113
	}
	o := options{
		ring:      int(min(mm.FifoSize, maxRing+1)),
		elem:      int(min(mm.FifoElemSize, maxElemSize+1)),
		seg:       mm.SegSize.Int(8256),
		maxBufs:   mm.RxMaxBufs,
		growBufs:  int(min(mm.RxBufsGrow, maxRing)),
		growBy:    mm.RxGrowFactor,
		maxChunk:  min(mm.RxMaxChunk.Int(128<<20), maxChunk),
		maxPoll:   max(mm.FifoMaxPoll.Int(16), 1),
		maxNumEPs: mm.SM.Common.MaxNumEPs.Int(uct.Unlimited),
		handling:  mm.ErrorHandling,
		failure:   mm.SM.Common.Failure,
	}
	switch {
	case o.ring < minRing || o.ring > maxRing || o.ring&(o.ring-1) != 0:
		return bad("FIFO_SIZE", mm.FifoSize, fmt.Sprintf("a power of two from %d to %d", minRing, maxRing))
	case o.elem < minElemSize || o.elem > maxElemSize || o.elem%8 != 0:
		return bad("FIFO_ELEM_SIZE", mm.FifoElemSize, fmt.Sprintf("a multiple of 8 from %d to %d", minElemSize, maxElemSize))
	case o.seg < minSegSize || o.seg > maxSegSize:
		return bad("SEG_SIZE", mm.SegSize, fmt.Sprintf("%d to %d", minSegSize, maxSegSize))
	case uint64(o.ring)*uint64(o.stride()) > maxMapped:
		return bad("SEG_SIZE", mm.SegSize, fmt.Sprintf("small enough for UCX_%sFIFO_SIZE=%d of them: peers attach no more than %d bytes",
			prefix, o.ring, maxMapped))
	case !(mm.ReleaseFactor >= 0 && mm.ReleaseFactor < 1):
		return bad("FIFO_RELEASE_FACTOR", mm.ReleaseFactor, "at least 0 and less than 1")
	case !(mm.RxGrowFactor >= 1):
		return bad("RX_GROW_FACTOR", mm.RxGrowFactor, "at least 1")
	case mm.FifoHuge:
		return bad("FIFO_HUGETLB", "y", "n")
	case o.maxBufs >= 0 && o.maxBufs < o.ring:
		return bad("RX_MAX_BUFS", o.maxBufs, fmt.Sprintf("-1 or at least UCX_%sFIFO_SIZE, %d", prefix, o.ring))
	}
	// A sender of C UCX may fill a longer buffer completely, but the element has only 16
	// bits for the length.
	o.bcopy = min(o.seg, maxBcopy)
	// The tail moves at multiples of the largest power of two within that part of the ring.
	step := uint64(1)
	for float64(step*2) <= float64(o.ring)*mm.ReleaseFactor {
		step *= 2
	}
	o.release = step - 1
	bw := float64(mm.SM.BW)
	if mm.SM.BW.IsAuto() {
		bw = 15360 << 20
	}
	o.perf = uct.Perf{
		Overhead:           10e-9,
		SendOverhead:       seconds(mm.SendOverhead.short),
		RecvOverhead:       seconds(mm.RecvOverhead.short),
		CopyOverhead:       mm.SendOverhead.extra() + mm.RecvOverhead.extra(),
		BandwidthDedicated: bw,
		Latency:            uct.Linear{C: float64(80*time.Nanosecond) / float64(time.Second)},
	}
	return o, nil
}

// maxPutShort is the limit that C UCX publishes, or the largest int if that is smaller.
const maxPutShort = min(math.MaxUint32, math.MaxInt)
