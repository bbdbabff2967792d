//go:build linux

package shm

import (
	"github.com/ucx-go/ucx/uct/internal/host"
)

// txRing is a peer's ring as an endpoint uses it.
type txRing struct {
	head    *uint64
	addrLen *uint32
	elems   []byte
	tail    uint64  // as read last
	n       uint64  // number of elements
	elem    int     // size of an element in bytes
	peer    *uint64 // the tail in the peer's ring
	seg     *attachment
	ref     reference
	pid     int
	proc    host.Process
	wakeup  string // name of the peer's wakeup socket; empty: the peer cannot be woken
	ours    bool   // the peer uses this library
}
