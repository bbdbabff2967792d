//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
)

// Memory that peers have mapped stays mapped when its owner frees it: what a peer then writes
// is lost without an error. So the owner of an allocation records whether the memory may still
// be accessed, in a page of the segment behind the memory that no key opens. Peers read that
// record before each access. C UCX neither has such a page nor sees one: a key of posix has
// the length of the memory, and a key of System V is used with addresses of the memory alone.

// lifeMagic tells the page from application memory in the last page of a segment of C UCX:
// 16 random bytes.
const lifeMagic = "\x9b\xe1\x4c\x07\xd5\x3a\xf2\x68\x81\x1e\xc6\xb9\x50\x7d\xa4\x23"

// The layout of the page: the magic, then a 32-bit word.
const (
	lifeWord  = len(lifeMagic)
	lifeBytes = lifeWord + 4

	lifeOpen    = 1
	lifeRevoked = 2
)

// life is the beginning of such a page, behind memory of this process or of a peer; nil if
// there is no such page.
type life []byte

// begin initialises the page of new memory.
func (l life) begin() {
	atomic.StoreUint32(word32(l, lifeWord), lifeOpen)
	copy(l, lifeMagic)
}

// revoke records that the memory may not be accessed any more.
func (l life) revoke() {
	if l != nil {
		atomic.StoreUint32(word32(l, lifeWord), lifeRevoked)
	}
}

// revoked reports whether the owner has revoked access.
func (l life) revoked() bool { return l != nil && atomic.LoadUint32(word32(l, lifeWord)) != lifeOpen }

// lifeOf returns the page at the end of a peer's segment, nil if the segment has none.
func lifeOf(a *attachment) life {
	if len(a.mem) < 2*pageSize {
		return nil
	}
	l := life(a.mem[len(a.mem)-pageSize:][:lifeBytes])
	if ours, _, err := a.lookAt(l); err != nil || !ours {
		return nil
	}
	return l
}

// lookAt reads the page of a segment that can shrink. ours reports whether the page has the
// magic. An error means that the page is gone.
func (a *attachment) lookAt(l life) (ours, revoked bool, err error) {
	defer fault.End(fault.Begin(), a, nil, &err)
	return string(l[:lifeWord]) == lifeMagic, l.revoked(), nil
}

// Fault implements fault.Owner, for lookAt.
func (a *attachment) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, a.mem) {
		return nil
	}
	return ucs.ErrConnectionReset
}

// alwaysOpen stands in for the word of memory whose owner has no such page, or can take the
// page away.
var alwaysOpen uint32 = lifeOpen

// openWord returns the word to read before each access.
func openWord(a *attachment, l life) *uint32 {
	if l == nil || a.shrink {
		return &alwaysOpen
	}
	return word32(l, lifeWord)
}

// revoked reports whether the memory may not be accessed any more. It returns false if the
// owner has truncated the segment: then the access itself fails.
func (k *remoteKey) revoked() bool {
	if k.life == nil {
		return false
	}
	_, revoked, err := k.seg.lookAt(k.life)
	return err == nil && revoked
}

//go:noinline
func errRevoked() error {
	return fmt.Errorf("shm: the owner has freed the memory: %w", ucs.ErrInvalidAddr)
}
