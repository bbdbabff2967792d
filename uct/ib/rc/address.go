//go:build linux

package rc

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// epAddress is the address of an endpoint (uct_rc_verbs_ep_addr_t,
// src/uct/ib/rc/verbs/rc_verbs.h): flags, the number of the queue pair in 3 bytes, and with
// one of the flags a byte that offsets of atomics come of; releases since 1.14 have two bytes
// more then, of a key to flush by. Ours have none of that.
type epAddress struct {
	qpn    verbs.QPN
	offset uint64 // of addresses in accesses by the second of remote keys
}

const (
	epAddrLen = 4

	epHasAtomic = 1 << 0 // there is more
	epNoOffset  = 1 << 1 // which is no offset
)

// Lengths of addresses with more in them.
const (
	epAddrAtomicLen = 5
	epAddrFlushLen  = 7
)

// append appends the packed address, without what ours do not have.
func (a *epAddress) append(b []byte) []byte {
	n := uint32(a.qpn)
	return append(b, 0, byte(n), byte(n>>8), byte(n>>16))
}

// parseEPAddress reads an address that takes all of b. The bytes are untrusted: an error
// matches ucs.ErrInvalidAddr. Flags that are unknown do not matter where the
// length is known.
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
