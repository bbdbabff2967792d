//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// remoteKey is an unpacked key: an attached segment and the segment's address in its owner.
type remoteKey struct {
	d        *domain
	ref      reference
	seg      *attachment
	base     uint64  // address of the segment in the owner
	length   uint64  // bytes that the key opens, all of them mapped
	life     life    // the owner's record whether the memory may still be accessed; nil: none
	open     *uint32 // word in life, or alwaysOpen if there is none or it needs a fence
	released atomic.Bool
}

// UnpackRkey implements uct.MemoryDomain: it attaches the segment. The Value of the result is
// the number to add to a remote address to get the local one, as with C UCX.
func (d *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) { return d.unpack(packed, 0) }

// UnpackRkeyOf implements uct.MappedMemory.
func (d *domain) UnpackRkeyOf(p uct.Process, packed []byte) (*uct.Rkey, error) {
	owner := host.OfID(p)
	if !owner.Alive() {
		return nil, fmt.Errorf("shm: %s: remote key of process %d, which has ended: %w", d.attr.Component, owner.PID, ucs.ErrUnreachable)
	}
	return d.unpack(packed, owner.PID)
}

// unpack attaches the segment that a key names. The segment must belong to process pid, or to
// any process if pid is 0.
func (d *domain) unpack(packed []byte, pid int) (*uct.Rkey, error) {
	k, err := d.m.parseKey(packed)
	if err != nil {
		return nil, fmt.Errorf("shm: %s: %w", d.attr.Component, err)
	}
	a, err := d.attached.attach(k.ref, pid)
	if err != nil {
		return nil, fmt.Errorf("shm: %s: remote key: %w", d.attr.Component, err)
	}
	alive := lifeOf(a)
	have := uint64(len(a.mem))
	if alive != nil {
		have -= uint64(pageSize)
	}
	if k.length == 0 {
		k.length = have
	}
	if k.length > have || k.base+k.length < k.base || k.base%uint64(pageSize) != 0 {
		d.attached.release(a)
		return nil, fmt.Errorf("shm: %s: remote key for %d bytes at %#x of a segment of %d bytes: %w",
			d.attr.Component, k.length, k.base, have, ucs.ErrInvalidParam)
	}
	return &uct.Rkey{
		Value:  addressOf(a.mem) - k.base,
		Handle: &remoteKey{d: d, ref: k.ref, seg: a, base: k.base, length: k.length, life: alive, open: openWord(a, alive)},
	}, nil
}

// RkeyCurrent implements uct.MappedMemory. If the segment has a life page that cannot be taken
// away, the page decides: the owner revokes access before the segment's name can be reused.
// Otherwise the name is looked up, which takes longer than copying some ten kilobytes.
func (d *domain) RkeyCurrent(key *uct.Rkey) bool {
	k, err := d.key(key)
	switch {
	case err != nil || k.released.Load():
		return false
	case k.life != nil && !k.seg.shrink:
		return !k.life.revoked()
	}
	return !k.revoked() && d.m.names(k.ref, k.seg.ident)
}

// RkeyAbandoned implements uct.MappedMemory.
func (d *domain) RkeyAbandoned(key *uct.Rkey) bool {
	k, err := d.key(key)
	return err == nil && !k.released.Load() && (k.revoked() || d.m.abandoned(k.ref, k.seg.ident))
}

// ReleaseRkey implements uct.MemoryDomain. Memory that RkeyPtr gave must not be
// touched any more.
func (d *domain) ReleaseRkey(key *uct.Rkey) error {
	k, err := d.key(key)
	if err != nil {
		return err
	}
	if !k.released.CompareAndSwap(false, true) {
		return fmt.Errorf("shm: releasing a remote key twice: %w", ucs.ErrInvalidParam)
	}
	k.life, k.open = nil, &alwaysOpen // no pointers to what may be unmapped now
	d.attached.release(k.seg)
	return nil
}

// RkeyPtr implements uct.MemoryDomain. A hostile owner can take pages of the memory away,
// unless the memory is a System V segment of small pages or a sealed file. Touching such a
// page is then a fault.
func (d *domain) RkeyPtr(key *uct.Rkey, raddr uint64, length int) ([]byte, error) {
	k, err := d.key(key)
	if err != nil {
		return nil, err
	}
	if k.released.Load() {
		return nil, errKey()
	}
	b, ok := k.bytes(raddr, length)
	if !ok {
		return nil, errNoAccess(raddr, length)
	}
	return b, nil
}

// key returns the remoteKey behind a key of this domain.
func (d *domain) key(key *uct.Rkey) (*remoteKey, error) {
	if key != nil {
		if k, ok := key.Handle.(*remoteKey); ok && k.d == d {
			return k, nil
		}
	}
	return nil, fmt.Errorf("shm: key of another memory domain: %w", ucs.ErrInvalidParam)
}

// bytes returns the n bytes at raddr if the key opens them all.
func (k *remoteKey) bytes(raddr uint64, n int) ([]byte, bool) {
	off := raddr - k.base
	if n < 0 || off > k.length || uint64(n) > k.length-off {
		return nil, false
	}
	return k.seg.mem[off : off+uint64(n) : off+uint64(n)], true
}

//go:noinline
func errNoAccess(raddr uint64, n int) error {
	return fmt.Errorf("shm: access to %d bytes at %#x: the key does not permit the access: %w", n, raddr, ucs.ErrInvalidAddr)
}
