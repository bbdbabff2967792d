package ucpnet

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// hub is a worker as connections and listeners share it.
type hub struct {
	w    *ucp.Worker
	ctx  *ucp.Context // nil for a worker of the application
	key  *ucp.Worker  // in hubs: nil for the one of the process
	refs atomic.Int32

	pairs sync.Mutex // held while the ends of a pipe are made: the second connects with the first

	mu        sync.Mutex
	listeners []*Listener
}

// hubs are those in use, by the worker that the application has given.
var hubs = struct {
	mu  sync.Mutex
	all map[*ucp.Worker]*hub
}{all: make(map[*ucp.Worker]*hub)}

// hubOf returns the hub of a worker, nil for the one of the process, with a reference.
func hubOf(w *ucp.Worker) (*hub, error) {
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	h := hubs.all[w]
	if h == nil {
		var err error
		if h, err = newHub(w); err != nil {
			return nil, err
		}
		hubs.all[w] = h
	}
	h.retain()
	return h, nil
}

func newHub(w *ucp.Worker) (*hub, error) {
	h := &hub{w: w, key: w}
	if w == nil {
		var err error
		if h.ctx, err = ownContext(); err != nil {
			return nil, err
		}
		if h.w, err = h.ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: true, Name: "ucpnet"}); err != nil {
			h.ctx.Close()
			return nil, err
		}
	} else if w.Attr().ThreadMode != ucs.ThreadModeMulti {
		return nil, fmt.Errorf("ucpnet: Config.Worker has thread mode %v, wanted %v: %w", w.Attr().ThreadMode, ucs.ThreadModeMulti, ucs.ErrInvalidParam)
	}
	_, err := h.w.StreamPoll(nil)
	if err == nil {
		err = h.w.SetAMHandler(ucp.AMHandlerParams{ID: MessageID, Handler: onNote})
	}
	if err != nil {
		h.close()
		return nil, fmt.Errorf("ucpnet: the worker needs FeatureStream and FeatureAM: %w", err)
	}
	return h, nil
}

// ownContext makes the context of the shared worker, with the settings of the environment.
// This package never sends by rendezvous, so it asks for no lanes for that: a peer with
// streams alone would not have made their other ends. As in package net, a restarted server
// can listen at its port at once.
func ownContext() (*ucp.Context, error) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return nil, err
	}
	for _, s := range [][2]string{{"RNDV_SCHEME", "am"}, {"TCP_CM_REUSEADDR", "y"}} {
		if err := cfg.Modify(s[0], s[1]); err != nil {
			return nil, err
		}
	}
	return ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureStream | ucp.FeatureAM}, cfg)
}

// retain takes one more reference. The caller holds one already.
func (h *hub) retain() { h.refs.Add(1) }

// release gives one back. With the last one goes the worker, if it is ours.
func (h *hub) release() {
	if h.refs.Add(-1) > 0 {
		return
	}
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	if hubs.all[h.key] != h || h.refs.Load() > 0 { // it is gone, or in use again
		return
	}
	delete(hubs.all, h.key)
	h.close()
}

func (h *hub) close() {
	if h.ctx == nil {
		h.w.SetAMHandler(ucp.AMHandlerParams{ID: MessageID}) // the application may have closed it
		return
	}
	h.w.Close()
	h.ctx.Close()
}

// enlist and strike add and remove a listener.
func (h *hub) enlist(l *Listener) {
	h.mu.Lock()
	h.listeners = append(h.listeners, l)
	h.mu.Unlock()
}

func (h *hub) strike(l *Listener) {
	h.mu.Lock()
	h.listeners = slices.DeleteFunc(h.listeners, func(o *Listener) bool { return o == l })
	h.mu.Unlock()
}

// listenerAt returns the listener of this worker that an address leads to, nil if there is
// none.
func (h *hub) listenerAt(to netip.AddrPort) *Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := slices.IndexFunc(h.listeners, func(l *Listener) bool {
		at := l.addr.AddrPort
		all := at.Addr().IsUnspecified() && (at.Addr().Is6() || to.Addr().Is4()) // that of IPv6 takes IPv4 too
		return at.Port() == to.Port() && (at.Addr() == to.Addr() || all && isOwn(to.Addr()))
	})
	if k < 0 {
		return nil
	}
	return h.listeners[k]
}
