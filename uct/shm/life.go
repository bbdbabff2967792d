//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
)

// Memory that peers have mapped stays theirs when its owner frees it: what they
// write then is lost, and nobody is told. So behind each allocation, in a page of
// the segment that no key opens, its owner says whether it may still be accessed,
// and peers look there before each access. C UCX neither has such a page nor sees
// one: a key of posix has the length of the memory, and one of System V is used
// with addresses of the memory alone.

// lifeMagic tells the page from memory of a user that happens to be the last of a
// segment of C UCX: 16 random bytes.
const lifeMagic = "\x9b\xe1\x4c\x07\xd5\x3a\xf2\x68\x81\x1e\xc6\xb9\x50\x7d\xa4\x23"

// The page: the magic, then a word.
const (
	lifeWord  = len(lifeMagic)
	lifeBytes = lifeWord + 4

	lifeOpen    = 1
	lifeRevoked = 2
)

// life is the page of one's own memory, or of a peer's: nil where there is none.
type life []byte

// begin fills in the page of new memory.
func (l life) begin() {
	atomic.StoreUint32(word32(l, lifeWord), lifeOpen)
	copy(l, lifeMagic)
}

// revoke refuses accesses from now on.
func (l life) revoke() {
	if l != nil {
		atomic.StoreUint32(word32(l, lifeWord), lifeRevoked)
	}
}

// revoked reports whether the owner has revoked access.
func (l life) revoked() bool { return l != nil && atomic.LoadUint32(word32(l, lifeWord)) != lifeOpen }

// lifeOf finds the page at the end of a peer's segment.
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

// lookAt reads a page of a segment that the owner may cut short.
func (a *attachment) lookAt(l life) (ours, revoked bool, err error) {
	defer fault.End(fault.Begin(), a, nil, &err)
	return string(l[:lifeWord]) == lifeMagic, l.revoked(), nil
}

// Fault implements fault.Owner, for a look at the page.
func (a *attachment) Fault(addr uint64, _ []byte) error {
	if !fault.Within(addr, a.mem) {
		return nil
	}
	return ucs.ErrConnectionReset
}

// alwaysOpen is for memory whose owner does not tell, or can take the word away.
var alwaysOpen uint32 = lifeOpen

// openWord is the word to look at before each access.
func openWord(a *attachment, l life) *uint32 {
	if l == nil || a.shrink {
		return &alwaysOpen
	}
	return word32(l, lifeWord)
}

// revoked reports whether the memory may not be accessed any more. If the owner has
// cut the segment short the access itself tells.
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
