package self

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// remote returns the n bytes at addr of the peer, which is this process. It returns an error if the
// endpoint accepts no operations or the key does not permit the accesses in want.
func (e *endpoint) remote(key *uct.Rkey, addr uint64, n int, want uct.Access) ([]byte, error) {
	if err := e.ready(); err != nil {
		return nil, err
	}
	b, ok := opened(key, addr, n, want)
	if !ok && n > 0 {
		return nil, errNoAccess(accessName(want), addr, n)
	}
	return b, nil
}

// PutShort implements uct.RMA. The access is checked before a byte moves.
func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	if len(buf) > maxPutShort {
		return ucs.ErrInvalidParam
	}
	dst, err := e.remote(key, raddr, len(buf), uct.AccessRemotePut)
	if err != nil {
		return err
	}
	copy(dst, buf)
	return nil
}

// PutBcopy implements uct.RMA. It packs directly into the target memory.
func (e *endpoint) PutBcopy(p uct.Packer, length int, raddr uint64, key *uct.Rkey) (int, error) {
	if length < 0 {
		return 0, ucs.ErrInvalidParam
	}
	dst, err := e.remote(key, raddr, length, uct.AccessRemotePut)
	if err != nil {
		return 0, err
	}
	return p.Pack(dst), nil
}

// GetBcopy implements uct.RMA. The data has arrived when it returns, so there is no completion.
func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	if length < 0 {
		return ucs.ErrInvalidParam
	}
	src, err := e.remote(key, raddr, length, uct.AccessRemoteGet)
	if err != nil {
		return err
	}
	u.Unpack(src)
	return nil
}

func accessName(a uct.Access) string {
	switch a {
	case uct.AccessRemotePut:
		return "put to"
	case uct.AccessRemoteGet:
		return "get from"
	}
	return "atomic on"
}

//go:noinline
func errNoAccess(what string, addr uint64, n int) error {
	return fmt.Errorf("self: %s %d bytes at %#x: the key does not permit the access: %w", what, n, addr, ucs.ErrInvalidAddr)
}
