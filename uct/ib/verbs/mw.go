//go:build linux

package verbs

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/ib/abi"
	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// MW is a memory window of type 2: a key for a part of a region that work requests open and
// invalidate, without a system call. Any goroutine may use it; only one bind of a window
// may be in flight.
type MW struct {
	pd     *PD
	handle uint32
	id     uint64
	rkey   atomic.Uint32

	// Of who posts binds: how many of this window have not been rung yet, and the next
	// window of which there are some.
	unrung uint32
	next   *MW
}

// AllocMW makes a memory window that gives no access yet; ibv_alloc_mw.
func (p *PD) AllocMW() (*MW, error) {
	const type2 = 2 // enum ib_mw_type, ib_verbs.h
	if err := p.ctx.lacks[provider.FeatureMW]; err != nil {
		return nil, err
	}
	w := &MW{pd: p}
	id, err := p.ctx.begin(w, turnMW)
	if err != nil {
		return nil, err
	}
	w.id = id
	var resp abi.AllocMwResp
	if err := p.ctx.invoke(abi.IB_USER_VERBS_CMD_ALLOC_MW, abi.Bytes(&abi.AllocMw{PdHandle: p.handle, MwType: type2}), abi.Bytes(&resp)); err != nil {
		p.ctx.end(w, w.id)
		return nil, err
	}
	w.handle = resp.MwHandle
	w.rkey.Store(resp.Rkey)
	return w, nil
}

// RKey returns the key for peers: from the posting of a WRBindMW on, the key that this
// gives the window.
func (w *MW) RKey() RKey { return RKey(w.rkey.Load()) }

// Close deallocates the window, open or not; ibv_dealloc_mw. Call it before closing the
// region and the queue pair that the window was opened with: rdma_rxe takes 20 seconds to
// destroy a queue pair with an open window.
func (w *MW) Close() error {
	return w.pd.ctx.destroy(w, w.id, &w.handle, func(handle uint32) *uverbs.Call {
		return uverbs.NewCall(abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY).
			Destroy(abi.UVERBS_ATTR_DESTROY_MW_HANDLE, handle)
	})
}

func (w *MW) abandon() {}

// MWBind holds the parameters of a WRBindMW. It opens Length bytes from Addr on of a region
// with AccessMWBind, to the peer of the queue pair that it is posted to. The window must be
// new or invalidated, by WRLocalInv or the peer's WRSendWithInv. A window whose bind has
// failed or was flushed cannot be used again: close it.
type MWBind struct {
	MW     *MW
	MR     *MR
	Addr   uint64
	Length uint64
	Access Access
}

// keys are the window's key and the next: the 8 low bits are the owner's to choose, so
// that old keys do not open what is new.
func (w *MW) keys() (old, next RKey) {
	k := w.rkey.Load()
	return RKey(k), RKey(k&^0xff | (k+1)&0xff)
}

// bind gives the window its next key. list is of windows bound and not rung.
func (w *MW) bind(key RKey, list **MW) {
	w.rkey.Store(uint32(key))
	if w.unrung == 0 {
		w.next, *list = *list, w
	}
	w.unrung++
}

// rung ends the waiting for the bell, and returns the next window of the list.
func (w *MW) rung() (next *MW) {
	next = w.next
	w.next, w.unrung = nil, 0
	return next
}

// dropped is rung of binds that are never posted: the keys are as before.
func (w *MW) dropped() (next *MW) {
	k := w.rkey.Load()
	w.rkey.Store(k&^0xff | (k-w.unrung)&0xff)
	return w.rung()
}
