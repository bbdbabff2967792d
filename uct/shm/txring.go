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
	tail    uint64 // as of the last look
	n       uint64 // elements
	elem    int
	peer    *uint64 // the tail
	seg     *attachment
	ref     reference
	pid     int
	proc    host.Process
	wakeup  string // the name of its socket; empty: the peer cannot be woken
	ours    bool   // the peer is of this library
}
