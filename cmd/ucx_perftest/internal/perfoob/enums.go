//go:build linux

package perfoob

import "fmt"

// API is the layer under test (ucx_perf_api_t in api/libperf.h, which also has the other types
// here).
type API uint32

// Layers under test.
const (
	UCT API = iota
	UCP
	apiLast
)

// String returns the layer's name.
func (a API) String() string {
	switch a {
	case UCT:
		return "UCT"
	case UCP:
		return "UCP"
	}
	return fmt.Sprintf("API %d", uint32(a))
}

// Command is the operation under test.
type Command uint32

// Operations under test.
const (
	CmdAM Command = iota
	CmdPut
	CmdGet
	CmdAdd
	CmdFAdd
	CmdSwap
	CmdCSwap
	CmdTag
	CmdTagSync
	CmdStream
	cmdLast
)

// Type is the pattern of messages.
type Type uint32

// Patterns of messages.
const (
	PingPong Type = iota
	PingPongWaitMem
	StreamUni // client to server
	StreamBi
	typeLast
)

// WaitMode says how to wait for progress.
type WaitMode uint32

// Wait modes.
const (
	WaitPoll WaitMode = iota
	WaitSleep
	WaitSpin
	WaitDefault
	waitLast
)

// AsyncMode is the mode of asynchronous progress in C's UCT (ucs_async_mode_t in
// ucs/async/async_fwd.h).
type AsyncMode uint32

// Async modes. C has one more, by polling, which no option selects.
const (
	AsyncSignal AsyncMode = iota
	AsyncThreadSpinlock
	AsyncThreadMutex
	_ // by polling
	asyncLast
)

// CooperationLevel says which threads of an accelerator start an operation together
// (ucs_device_level_t in ucs/sys/device_code.h).
type CooperationLevel uint32

// Values of CooperationLevel.
const (
	LevelThread CooperationLevel = iota
	LevelWarp
	LevelBlock
	LevelGrid
)

// ChannelMode says how an accelerator chooses the channel of an operation.
type ChannelMode uint32

// Channel modes.
const (
	ChannelsSingle ChannelMode = iota
	ChannelsRandom
	ChannelsPerThread
)

// Flags modify a test.
type Flags uint32

// Flags of a test. Unknown flags are ignored, as in C.
const (
	FlagValidate         Flags = 1 << 1
	FlagOneSided         Flags = 1 << 2
	FlagMapNonblock      Flags = 1 << 3
	FlagTagWildcard      Flags = 1 << 4
	FlagTagUnexpProbe    Flags = 1 << 5
	FlagVerbose          Flags = 1 << 7
	FlagStreamRecvData   Flags = 1 << 8
	FlagFlushEP          Flags = 1 << 9
	FlagWakeup           Flags = 1 << 10
	FlagErrHandling      Flags = 1 << 11
	FlagLoopback         Flags = 1 << 12
	FlagPreregistered    Flags = 1 << 13
	FlagAMReceiverCopies Flags = 1 << 14
)

// Layout is the form in which a test passes the data to UCT.
type Layout uint32

// Layouts of UCT tests.
const (
	Short Layout = iota
	ShortIOV
	Bcopy
	Zcopy
	layoutLast
)

// String returns the name that the C tool prints.
func (l Layout) String() string {
	switch l {
	case Short:
		return "short"
	case ShortIOV:
		return "short iov"
	case Bcopy:
		return "bcopy"
	case Zcopy:
		return "zcopy"
	}
	return "(undefined)"
}

// Datatype is the form in which a test passes the data to UCP.
type Datatype uint32

// Datatypes of UCP tests.
const (
	Contig Datatype = iota
	IOV
	datatypeLast
)
