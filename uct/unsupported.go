package uct

import (
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
)

// Unsupported refuses every optional operation of an Endpoint. Embed it and
// override what the transport can do.
type Unsupported struct{}

func (Unsupported) AMShort(AMID, uint64, []byte, SendFlags, *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) AMShortIOV(AMID, []IOV, SendFlags, *Completion) error { return ucs.ErrUnsupported }
func (Unsupported) AMBcopy(AMID, Packer, SendFlags, *Completion) (int, error) {
	return 0, ucs.ErrUnsupported
}
func (Unsupported) AMZcopy(AMID, Packer, []IOV, SendFlags, *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) PutShort([]byte, uint64, *Rkey) error             { return ucs.ErrUnsupported }
func (Unsupported) PutBcopy(Packer, int, uint64, *Rkey) (int, error) { return 0, ucs.ErrUnsupported }
func (Unsupported) PutZcopy([]IOV, uint64, *Rkey, *Completion) error { return ucs.ErrUnsupported }
func (Unsupported) GetShort([]byte, uint64, *Rkey) error             { return ucs.ErrUnsupported }
func (Unsupported) GetZcopy([]IOV, uint64, *Rkey, *Completion) error { return ucs.ErrUnsupported }
func (Unsupported) GetBcopy(Unpacker, int, uint64, *Rkey, *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) Atomic32Post(AtomicOp, uint32, uint64, *Rkey) error { return ucs.ErrUnsupported }
func (Unsupported) Atomic64Post(AtomicOp, uint64, uint64, *Rkey) error { return ucs.ErrUnsupported }
func (Unsupported) Atomic32Fetch(AtomicOp, uint32, *uint32, uint64, *Rkey, *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) Atomic64Fetch(AtomicOp, uint64, *uint64, uint64, *Rkey, *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) AtomicCSwap32(_, _ uint32, _ uint64, _ *Rkey, _ *uint32, _ *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) AtomicCSwap64(_, _ uint64, _ uint64, _ *Rkey, _ *uint64, _ *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) TagEagerShort(uint64, []byte) error { return ucs.ErrUnsupported }
func (Unsupported) TagEagerBcopy(_, _ uint64, _ Packer, _ SendFlags) (int, error) {
	return 0, ucs.ErrUnsupported
}
func (Unsupported) TagEagerZcopy(_, _ uint64, _ []IOV, _ SendFlags, _ *Completion) error {
	return ucs.ErrUnsupported
}
func (Unsupported) TagRndvZcopy(uint64, Packer, []IOV, *Completion) (any, error) {
	return nil, ucs.ErrUnsupported
}
func (Unsupported) TagRndvCancel(any) error             { return ucs.ErrUnsupported }
func (Unsupported) TagRndvRequest(uint64, Packer) error { return ucs.ErrUnsupported }
func (Unsupported) Check(*Completion) error             { return ucs.ErrUnsupported }
func (Unsupported) Address() ([]byte, error)            { return nil, ucs.ErrUnsupported }
func (Unsupported) ConnectToEP(_, _ []byte) error       { return ucs.ErrUnsupported }
func (Unsupported) Connect([]byte) error                { return ucs.ErrUnsupported }
func (Unsupported) Disconnect() error                   { return ucs.ErrUnsupported }
func (Unsupported) Notify() error                       { return ucs.ErrUnsupported }
func (Unsupported) SockAddrs() (l, r netip.AddrPort, err error) {
	return l, r, ucs.ErrUnsupported
}

// UnsupportedIface refuses the operations of matching hardware. Embed it in an
// Iface.
type UnsupportedIface struct{}

func (UnsupportedIface) TagRecvZcopy(_, _ uint64, _ []IOV, _ any) error { return ucs.ErrUnsupported }
func (UnsupportedIface) TagRecvCancel(any, bool) error                  { return ucs.ErrUnsupported }
