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

// hub is a worker that connections and listeners share, with a reference count.
type hub struct {
	w    *ucp.Worker
	ctx  *ucp.Context // context of the worker; nil for a worker of the application
	key  *ucp.Worker  // the key in hubs.all; nil for the worker that this package creates
	refs atomic.Int32

	// pairs is held while the two endpoints of a pipe are created, because the second connects to
	// the first.
	pairs sync.Mutex

	mu        sync.Mutex
	listeners []*Listener // guarded by mu
}

// hubs holds the hubs in use. The key is the application's worker, or nil for the worker that this
// package creates.
var hubs = struct {
	mu  sync.Mutex
	all map[*ucp.Worker]*hub
}{all: make(map[*ucp.Worker]*hub)}

// hubOf returns the hub of a worker of the application, or, for nil, of the worker that this
// package creates. The caller gets a reference, and must call release.
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

// ownContext creates the context of the shared worker, with the settings of the environment. This
// package never sends by rendezvous, so the context requests no rendezvous lanes, whose other side
// a peer with streams only would not create. As in package net, a restarted server can listen on
// its port at once.
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

// release drops one reference. The last one closes the worker, if this package created it.
func (h *hub) release() {
	if h.refs.Add(-1) > 0 {
		return
	}
	hubs.mu.Lock()
	defer hubs.mu.Unlock()
	if hubs.all[h.key] != h || h.refs.Load() > 0 { // another goroutine has closed it or uses it again
		return
	}
	delete(hubs.all, h.key)
	h.close()
}

func (h *hub) close() {
	if h.ctx == nil {
		h.w.SetAMHandler(ucp.AMHandlerParams{ID: MessageID}) // fails if the worker is closed
		return
	}
	h.w.Close()
	h.ctx.Close()
}

// addListener adds a listener to those that listenerAt finds.
func (h *hub) addListener(l *Listener) {
	h.mu.Lock()
	h.listeners = append(h.listeners, l)
	h.mu.Unlock()
}

// removeListener removes a listener from those that listenerAt finds.
func (h *hub) removeListener(l *Listener) {
	h.mu.Lock()
	h.listeners = slices.DeleteFunc(h.listeners, func(o *Listener) bool { return o == l })
	h.mu.Unlock()
}

// listenerAt returns the listener of this worker that accepts connections to an address, nil if
// there is none.
func (h *hub) listenerAt(to netip.AddrPort) *Listener {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := slices.IndexFunc(h.listeners, func(l *Listener) bool {
		at := l.addr.AddrPort
		all := at.Addr().IsUnspecified() && (at.Addr().Is6() || to.Addr().Is4()) // the unspecified IPv6 address accepts IPv4 too
		return at.Port() == to.Port() && (at.Addr() == to.Addr() || all && isOwn(to.Addr()))
	})
	if k < 0 {
		return nil
	}
	return h.listeners[k]
}
