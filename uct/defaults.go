package uct

import (
	"crypto/tls"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
)

// Default implementations, for the methods of an interface that a transport does not have. A
// type of the transport embeds the struct and overrides the methods that it has. The structs are
// empty: embedded anywhere but as the last field, they take no memory.

// NoAM refuses active messages. Embed it in an Endpoint and override the methods that the
// transport supports.
type NoAM struct{}

func (NoAM) AMShort(AMID, uint64, []byte, SendFlags, *Completion) error { return ucs.ErrUnsupported }
func (NoAM) AMShortIOV(AMID, []IOV, SendFlags, *Completion) error       { return ucs.ErrUnsupported }
func (NoAM) AMBcopy(AMID, Packer, SendFlags, *Completion) (int, error)  { return 0, ucs.ErrUnsupported }
func (NoAM) AMZcopy(AMID, Packer, []IOV, SendFlags, *Completion) error  { return ucs.ErrUnsupported }

// NoRMA refuses the operations of RMA, as NoAM refuses active messages.
type NoRMA struct{}

var _ RMA = NoRMA{}

func (NoRMA) PutShort([]byte, uint64, *Rkey) error                     { return ucs.ErrUnsupported }
func (NoRMA) PutBcopy(Packer, int, uint64, *Rkey) (int, error)         { return 0, ucs.ErrUnsupported }
func (NoRMA) PutZcopy([]IOV, uint64, *Rkey, *Completion) error         { return ucs.ErrUnsupported }
func (NoRMA) GetBcopy(Unpacker, int, uint64, *Rkey, *Completion) error { return ucs.ErrUnsupported }
func (NoRMA) GetZcopy([]IOV, uint64, *Rkey, *Completion) error         { return ucs.ErrUnsupported }

// NoAtomic refuses the operations of Atomic, as NoAM refuses active messages.
type NoAtomic struct{}

var _ Atomic = NoAtomic{}

func (NoAtomic) Atomic32Post(AtomicOp, uint32, uint64, *Rkey) error { return ucs.ErrUnsupported }
func (NoAtomic) Atomic64Post(AtomicOp, uint64, uint64, *Rkey) error { return ucs.ErrUnsupported }
func (NoAtomic) Atomic32Fetch(AtomicOp, uint32, *uint32, uint64, *Rkey, *Completion) error {
	return ucs.ErrUnsupported
}
func (NoAtomic) Atomic64Fetch(AtomicOp, uint64, *uint64, uint64, *Rkey, *Completion) error {
	return ucs.ErrUnsupported
}
func (NoAtomic) AtomicCSwap32(_, _ uint32, _ uint64, _ *Rkey, _ *uint32, _ *Completion) error {
	return ucs.ErrUnsupported
}
func (NoAtomic) AtomicCSwap64(_, _ uint64, _ uint64, _ *Rkey, _ *uint64, _ *Completion) error {
	return ucs.ErrUnsupported
}

// BasicNetworkEndpoint implements NetworkEndpoint for an endpoint that does not receive the peer's
// messages, whose interface has one address, whose Close does not affect the peer's endpoint, and
// that cannot copy the data that it still has to send. The transport does not count endpoints made
// for peers, so Claim does nothing.
type BasicNetworkEndpoint struct{}

var _ NetworkEndpoint = BasicNetworkEndpoint{}

func (BasicNetworkEndpoint) Source() *Source                        { return nil }
func (BasicNetworkEndpoint) InterfaceAddr() (ReachableParams, bool) { return ReachableParams{}, false }
func (BasicNetworkEndpoint) Claim()                                 {}
func (BasicNetworkEndpoint) Drain() bool                            { return false }
func (BasicNetworkEndpoint) CopyUnsent() bool                       { return false }

// BasicNetworkIface implements NetworkIface, except PeerAddr, for an iface that needs no address
// resolution, whose endpoints send on connections of their own, that has one address, and that
// does not fail.
type BasicNetworkIface struct{}

func (BasicNetworkIface) ResolveAddress(ReachableParams, func(bool)) bool { return false }
func (BasicNetworkIface) CanSendOver(*Source, ReachableParams) bool       { return false }
func (BasicNetworkIface) SecondReachable(ReachableParams) error           { return ucs.ErrUnreachable }
func (BasicNetworkIface) SecondAddress() (p ReachableParams, ok bool, err error) {
	return ReachableParams{}, false, nil
}
func (BasicNetworkIface) Failed() error { return nil }

// BasicProcessIface implements ProcessIface, except FindProcess, for an iface that cannot tell
// which library its peers use, and whose handlers get a Source.
type BasicProcessIface struct{}

func (BasicProcessIface) SameLibrary(ReachableParams) bool { return false }
func (BasicProcessIface) FindSenders() (bool, error)       { return false, nil }

// BasicSource implements SourceOwner, except DropSource, for a connection on which this side sends
// nothing, and which does not store the error that it has failed with.
type BasicSource struct{}

func (BasicSource) SourceShared() bool { return false }
func (BasicSource) EndSource()         {}
func (BasicSource) SourceError() error { return nil }
func (BasicSource) CheckSource()       {}

// BasicConnection implements Connection, except SourceInfo, PauseSource and ResumeSource, for a
// connection without TLS and without ports, whose holder the kernel does not know.
type BasicConnection struct{}

func (BasicConnection) SourceTLS() *tls.ConnectionState { return nil }
func (BasicConnection) HeldBy(Process) bool             { return false }
func (BasicConnection) MayListen(netip.AddrPort) bool   { return true }

// NoDeviceMemory implements DeviceMemory, except RkeyValue, for a domain that registers no
// dma-bufs and exports no memory.
type NoDeviceMemory struct{}

func (NoDeviceMemory) RegisterDMABuf(int, uint64, int, uint64, Access) (MemHandle, error) {
	return nil, ucs.ErrUnsupported
}
func (NoDeviceMemory) AppendExportedKey(b []byte, _ MemHandle) ([]byte, error) {
	return b, ucs.ErrUnsupported
}
func (NoDeviceMemory) ImportKey([]byte, int) (MemHandle, error) { return nil, ucs.ErrUnsupported }
