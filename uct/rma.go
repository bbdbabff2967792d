package uct

// RMA is an Endpoint that reads and writes the peer's memory (IfacePutShort to
// IfaceGetZcopy). Operations without their capability bit return ucs.ErrUnsupported; embed
// NoRMA to get that.
type RMA interface {
	// PutShort, PutBcopy and PutZcopy write to the peer's memory at raddr. Done means that
	// the local buffer may be reused; visibility at the peer needs a Flush. PutBcopy packs
	// at most length bytes, possibly straight into the target. Both PutShort and PutBcopy
	// return before anything is packed if the peer is known to refuse that many bytes
	// there.
	PutShort(buf []byte, raddr uint64, key *Rkey) error
	PutBcopy(p Packer, length int, raddr uint64, key *Rkey) (int, error)
	PutZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error

	// GetBcopy and GetZcopy read the peer's memory at raddr. Done means that the data has
	// arrived.
	GetBcopy(u Unpacker, length int, raddr uint64, key *Rkey, c *Completion) error
	GetZcopy(iov []IOV, raddr uint64, key *Rkey, c *Completion) error
}
