package self

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// addrLen is the length of an iface address: one 64-bit number, little-endian
// (uct_self_iface_addr_t in src/uct/sm/self/self.h).
const addrLen = 8

// newAddress makes the address of a new iface, which no iface of another process has either.
func newAddress() []byte { return binary.LittleEndian.AppendUint64(nil, uct.UniqueNumber()) }

// Reachable implements uct.Iface: an iface reaches itself only.
func (i *iface) Reachable(p uct.ReachableParams) error { return i.reaches(p.IfaceAddr) }

func (i *iface) reaches(addr []byte) error {
	if len(addr) != addrLen {
		return fmt.Errorf("self: iface address of %d bytes, not %d: %w", len(addr), addrLen, ucs.ErrUnreachable)
	}
	if string(addr) != string(i.addr) {
		return fmt.Errorf("self: address %x is not the address of this iface, %x: %w", addr, i.addr, ucs.ErrUnreachable)
	}
	return nil
}
