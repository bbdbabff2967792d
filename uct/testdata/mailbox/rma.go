package mailbox

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// remote returns the n bytes at addr if the key gives the access want.
func (e *endpoint) remote(key *uct.Rkey, addr uint64, n int, want uct.Access) ([]byte, error) {
	if err := e.ready(); err != nil {
		return nil, err
	}
	if n < 0 || n > 1<<20 {
		return nil, ucs.ErrInvalidParam
	}
	if key != nil {
		if r, ok := key.Handle.(*kit.Region); ok {
			if b, ok := r.At(addr, n, want); ok {
				return b, nil
			}
		}
	}
	if n == 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("mailbox: %d bytes at %#x, to which the key gives no access: %w", n, addr, ucs.ErrInvalidAddr)
}

func (e *endpoint) PutShort(buf []byte, raddr uint64, key *uct.Rkey) error {
	b, err := e.remote(key, raddr, len(buf), uct.AccessRemotePut)
	copy(b, buf)
	return err
}

func (e *endpoint) PutBcopy(p uct.Packer, length int, raddr uint64, key *uct.Rkey) (int, error) {
	b, err := e.remote(key, raddr, length, uct.AccessRemotePut)
	if err != nil {
		return 0, err
	}
	return p.Pack(b), nil
}

func (e *endpoint) GetBcopy(u uct.Unpacker, length int, raddr uint64, key *uct.Rkey, _ *uct.Completion) error {
	b, err := e.remote(key, raddr, length, uct.AccessRemoteGet)
	if err != nil {
		return err
	}
	u.Unpack(b)
	return nil
}
