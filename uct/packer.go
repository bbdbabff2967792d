package uct

// Packer writes a message, or the header of a zero-copy message, into transport memory. The
// caller's request implements it, so passing a Packer allocates nothing. Pack runs exactly once
// inside a call that accepts the operation and never in a call that returns an error.
type Packer interface {
	// Pack fills dst from its start and returns the number of bytes written. dst
	// is at least as long as the operation's limit, or as the length given to
	// PutBcopy.
	Pack(dst []byte) int
}

// Unpacker receives the bytes that GetBcopy has read. Unpack is called exactly once.
type Unpacker interface {
	Unpack(src []byte)
}

// IOV is one entry of a scatter-gather list. The list is read during the call and may be reused
// afterwards; the transport owns the memory of the entries until the operation's completion.
type IOV struct {
	Data []byte
	Mem  MemHandle // nil if the domain needs no local handle
}

// IOVLen returns the number of bytes in a list.
func IOVLen(iov []IOV) int {
	n := 0
	for i := range iov {
		n += len(iov[i].Data)
	}
	return n
}
