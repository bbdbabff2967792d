//go:build linux

package rc

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// epAddress is the address of an endpoint (uct_rc_verbs_ep_addr_t,
// src/uct/ib/rc/verbs/rc_verbs.h): flags, the queue pair number in 3 bytes, and, with
// epHasAtomic, a byte from which the offset of atomics is computed. Releases of C UCX since
// 1.14 then add two bytes of a key for flushes. The addresses that this package packs have
// neither.
type epAddress struct {
	qpn    verbs.QPN
	offset uint64 // added to addresses that are accessed by the second of two remote keys
}

const (
	epAddrLen = 4

	epHasAtomic = 1 << 0 // flag: more bytes follow
	epNoOffset  = 1 << 1 // flag: the byte that follows is not an offset
)

// Lengths of longer addresses.
const (
	epAddrAtomicLen = 5
	epAddrFlushLen  = 7
)

// append appends the packed address, without the optional bytes.
func (a *epAddress) append(b []byte) []byte {
	n := uint32(a.qpn)
	return append(b, 0, byte(n), byte(n>>8), byte(n>>16))
}

// parseEPAddress parses an address that takes all of b. The bytes are untrusted: an error
// matches ucs.ErrInvalidAddr. Unknown flags are ignored if the length is right.
func parseEPAddress(b []byte) (a epAddress, err error) {
	if len(b) < epAddrLen {
		return a, errEPAddress(b)
	}
	flags := b[0]
	if more := len(b) == epAddrAtomicLen || len(b) == epAddrFlushLen; more != (flags&epHasAtomic != 0) || !more && len(b) != epAddrLen {
		return a, errEPAddress(b)
	}
	a.qpn = verbs.QPN(binary.LittleEndian.Uint32(b) >> 8)
	if a.qpn == 0 {
		return a, errEPAddress(b)
	}
	if flags&(epHasAtomic|epNoOffset) == epHasAtomic {
		a.offset = 8 * uint64(b[epAddrLen])
	}
	return a, nil
}

//go:noinline
func errEPAddress(b []byte) error {
	return fmt.Errorf("rc: %d bytes %x are not an endpoint address: %w", len(b), b[:min(len(b), 16)], ucs.ErrInvalidAddr)
}
