//go:build linux

package verbs

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// MW is a memory window of type 2: a remote key for a part of a memory region. Work requests bind
// and invalidate it, without a system call. Any goroutine may use it; only one bind of a window may
// be in flight.
type MW struct {
	pd     *PD
	handle uint32
	id     uint64
	rkey   atomic.Uint32

	// Owned by the goroutine that posts binds. unrung is the number of binds of this window since
	// the last doorbell; next is the next window in Post.bound, the list of windows with such
	// binds.
	pendingBinds uint32
	next         *MW
}

// AllocMW makes a memory window that gives no access yet; ibv_alloc_mw.
func (p *PD) AllocMW() (*MW, error) {
	const type2 = 2 // enum ib_mw_type, ib_verbs.h
	if err := p.ctx.lacks[provider.FeatureMW]; err != nil {
		return nil, err
	}
	w := &MW{pd: p}
	id, err := p.ctx.register(w, phaseMW)
	if err != nil {
		return nil, err
	}
	w.id = id
	var resp abi.AllocMwResp
	if err := p.ctx.invoke(abi.IB_USER_VERBS_CMD_ALLOC_MW, abi.Bytes(&abi.AllocMw{PdHandle: p.handle, MwType: type2}), abi.Bytes(&resp)); err != nil {
		p.ctx.unregister(w, w.id)
		return nil, err
	}
	w.handle = resp.MwHandle
	w.rkey.Store(resp.Rkey)
	return w, nil
}

// RKey returns the remote key, for peers. Posting a WRBindMW changes the key.
func (w *MW) RKey() RKey { return RKey(w.rkey.Load()) }

// Close deallocates the window, bound or not; ibv_dealloc_mw. Call it before closing the
// region and the queue pair that the window was bound with: rdma_rxe takes 20 seconds to
// destroy a queue pair with a bound window.
func (w *MW) Close() error {
	return w.pd.ctx.destroy(w, w.id, &w.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_MW_HANDLE, handle)
	})
}

func (w *MW) abandon() {}

// MWBind holds the parameters of a WRBindMW. The bind gives the peer of the queue pair access to
// the Length bytes from Addr on of the region MR, which must have AccessMWBind. The window must be
// new, or invalidated by WRLocalInv or the peer's WRSendWithInv. A window whose bind has failed or
// was flushed cannot be used again: close it.
type MWBind struct {
	MW     *MW
	MR     *MR
	Addr   uint64
	Length uint64
	Access Access
}

// keys returns the window's current key and the key after its next bind. The process that owns the
// window chooses the low 8 bits of the key. Each bind changes them, so that an old key gives no
// access to the newly bound memory.
func (w *MW) keys() (old, next RKey) {
	k := w.rkey.Load()
	return RKey(k), RKey(k&^0xff | (k+1)&0xff)
}

// bind is called when a bind of the window was written to the queue. It sets the window's new key
// and adds the window to list, the windows with binds since the last doorbell.
func (w *MW) bind(key RKey, list **MW) {
	w.rkey.Store(uint32(key))
	if w.pendingBinds == 0 {
		w.next, *list = *list, w
	}
	w.pendingBinds++
}

// bindsPosted removes the window from the list of windows with binds since the last doorbell, because the
// doorbell is about to be rung. It returns the next window in the list, nil if there is none.
func (w *MW) bindsPosted() (next *MW) {
	next = w.next
	w.next, w.pendingBinds = nil, 0
	return next
}

// bindsDropped is like bindsPosted, for binds that were discarded: it restores the key from before these binds.
func (w *MW) bindsDropped() (next *MW) {
	k := w.rkey.Load()
	w.rkey.Store(k&^0xff | (k-w.pendingBinds)&0xff)
	return w.bindsPosted()
}
