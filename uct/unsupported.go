package uct

import "github.com/ucx-go/ucx/ucs"

// NoAM refuses active messages. Embed it in an Endpoint and override what the
// transport can do.
type NoAM struct{}

func (NoAM) AMShort(AMID, uint64, []byte, SendFlags, *Completion) error { return ucs.ErrUnsupported }
func (NoAM) AMShortIOV(AMID, []IOV, SendFlags, *Completion) error       { return ucs.ErrUnsupported }
func (NoAM) AMBcopy(AMID, Packer, SendFlags, *Completion) (int, error)  { return 0, ucs.ErrUnsupported }
func (NoAM) AMZcopy(AMID, Packer, []IOV, SendFlags, *Completion) error  { return ucs.ErrUnsupported }

// NoRMA is NoAM for the methods of RMA.
type NoRMA struct{}

var _ RMA = NoRMA{}

func (NoRMA) PutShort([]byte, uint64, *Rkey) error                     { return ucs.ErrUnsupported }
func (NoRMA) PutBcopy(Packer, int, uint64, *Rkey) (int, error)         { return 0, ucs.ErrUnsupported }
func (NoRMA) PutZcopy([]IOV, uint64, *Rkey, *Completion) error         { return ucs.ErrUnsupported }
func (NoRMA) GetBcopy(Unpacker, int, uint64, *Rkey, *Completion) error { return ucs.ErrUnsupported }
func (NoRMA) GetZcopy([]IOV, uint64, *Rkey, *Completion) error         { return ucs.ErrUnsupported }

// NoAtomic is NoAM for the methods of Atomic.
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
