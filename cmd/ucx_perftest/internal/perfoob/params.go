//go:build linux

package perfoob

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Limits on the parameters of a client. C has none of them.
const (
	MaxSizes   = 128     // entries of Params.Sizes
	MaxMessage = 1 << 30 // bytes of the messages of all threads, including gaps between their parts
	maxThreads = 128
	maxWindow  = 1 << 16 // outstanding operations
)

// Params are the parameters of a run (ucx_perf_params_t and perftest_params_t). Both sides use the
// client's parameters.
type Params struct {
	Test *Test // nil if both sides read their tests from a batch file

	ThreadMode  ucs.ThreadMode
	Threads     uint32
	Async       AsyncMode
	WaitMode    WaitMode
	SendMem     ucs.MemoryType
	RecvMem     ucs.MemoryType
	Flags       Flags
	Sizes       []int // the parts of a message, in bytes
	Stride      int   // bytes from the start of one part to the next, 0: no gaps
	Window      uint32
	WarmupIters uint64
	WarmupTime  float64 // seconds
	Iters       uint64  // 0: no limit
	MaxTime     float64 // seconds, 0: no limit
	Interval    float64 // seconds between reports
	Percentile  float64 // the rank to report, 0 to 100

	Device    string // UCT only, "<none>" if not given
	Transport string
	Layout    Layout
	FCWindow  uint32 // messages before an acknowledgement is due
	UCTHeader int    // bytes, included in the message size

	SendType  Datatype // UCP only
	RecvType  Datatype
	UCPHeader int // bytes, added to the message size

	Accelerated Accelerated // UCP only, 1.22 only
}

// Accelerated holds the parameters of operations that an accelerator starts. C's tool accepts them
// in every test and uses them only in tests with an accelerator; this tool checks them and passes
// them on.
type Accelerated struct {
	Level    CooperationLevel
	Channels ChannelMode
	Seed     uint64 // seed of ChannelsRandom
	Blocks   uint32 // blocks, each of Params.Threads threads
	Window   uint32 // operations before flow control
}

// None stands for a device or transport that is not given.
const None = "<none>"

// MaxFCWindow bounds Params.FCWindow: sequence numbers have 8 bits.
const MaxFCWindow = 127

// DefaultParams returns the defaults of C's tool.
func DefaultParams() Params {
	return Params{
		ThreadMode:  ucs.ThreadModeSerialized,
		Threads:     1,
		Async:       AsyncThreadSpinlock,
		WaitMode:    WaitDefault,
		SendMem:     ucs.MemoryHost,
		RecvMem:     ucs.MemoryHost,
		Flags:       FlagVerbose,
		Sizes:       []int{8},
		WarmupIters: 10000,
		WarmupTime:  0.1,
		Iters:       1000000,
		Interval:    1,
		Percentile:  50,
		Device:      None,
		Transport:   None,
		FCWindow:    MaxFCWindow,
		UCTHeader:   8,
		Accelerated: Accelerated{Blocks: 1, Window: 4},
	}
}

// MessageSize returns the number of bytes in a message.
func (p *Params) MessageSize() int {
	n := 0
	for _, s := range p.Sizes {
		n += s
	}
	return n
}

// Extent returns the number of bytes from the start of a message's first part to the end of its
// last part.
func (p *Params) Extent() int {
	if p.Stride == 0 {
		return p.MessageSize()
	}
	return (len(p.Sizes)-1)*p.Stride + p.Sizes[len(p.Sizes)-1]
}

// Validate checks the limits of C's tool and the limits of this package.
func (p *Params) Validate() error {
	switch {
	case p.Threads < 1 || p.Threads > maxThreads:
		return invalid("thread count %d, need 1 to %d", p.Threads, maxThreads)
	case p.Window > maxWindow:
		return invalid("window of %d outstanding operations, need at most %d", p.Window, maxWindow)
	case len(p.Sizes) < 1 || len(p.Sizes) > MaxSizes:
		return invalid("%d message parts, need 1 to %d", len(p.Sizes), MaxSizes)
	case !(p.Percentile >= 0 && p.Percentile <= 100):
		return invalid("percentile rank %v, need 0 to 100", p.Percentile)
	case !(p.WarmupTime >= 0) || !(p.MaxTime >= 0) || !(p.Interval >= 0):
		return invalid("negative time")
	case p.Stride < 0 || p.Stride > MaxMessage:
		return invalid("stride of %d bytes, need at most %d", p.Stride, MaxMessage)
	case p.UCTHeader < 0 || p.UCTHeader > MaxMessage || p.UCPHeader < 0 || p.UCPHeader > MaxMessage:
		return invalid("header size out of range")
	}
	if err := p.validateFCWindow(); err != nil {
		return err
	}
	for i, s := range p.Sizes {
		switch {
		case s < 0 || s > MaxMessage:
			return invalid("message part %d of %d bytes, need at most %d", i, s, MaxMessage)
		case p.Stride > 0 && s > p.Stride:
			return invalid("message part %d of %d bytes does not fit the stride of %d", i, s, p.Stride)
		}
	}
	if n := max(p.MessageSize(), p.Extent()); n > MaxMessage/int(p.Threads) {
		return invalid("messages of %d bytes in %d threads, need at most %d bytes in all", n, p.Threads, MaxMessage)
	}
	return nil
}

// validateFCWindow checks the flow control window of tests that have one: active messages over UCT.
// With a window of 0 the sender of a stream would wait forever.
func (p *Params) validateFCWindow() error {
	if p.Test == nil || p.Test.API != UCT || p.Test.Command != CmdAM {
		return nil
	}
	least := uint32(0)
	if p.Test.Type == StreamUni {
		least = 1
	}
	if p.FCWindow < least || p.FCWindow > MaxFCWindow {
		return invalid("flow control window %d (-W), test %s needs %d to %d", p.FCWindow, p.Test.Name, least, MaxFCWindow)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ucs.ErrInvalidParam)...)
}
