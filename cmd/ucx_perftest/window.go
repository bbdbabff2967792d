//go:build linux

package main

import "github.com/ucx-go/ucx/ucp"

// window is a queue of outstanding requests of one kind. They have no completion callbacks, because
// on a shared worker any thread could run the callback. Instead the thread checks them in the order
// in which they were started.
type window struct {
	ring  []*ucp.Request
	first int
	count int
}

func newWindow(size int) window { return window{ring: make([]*ucp.Request, size)} }

// full reports whether there is no room for another request.
func (w *window) full() bool { return w.count == len(w.ring) }

// add adds a request. nil stands for an operation that has completed in its call.
func (w *window) add(req *ucp.Request) {
	if req == nil {
		return
	}
	at := w.first + w.count
	if at >= len(w.ring) {
		at -= len(w.ring)
	}
	w.ring[at] = req
	w.count++
}

// take removes and returns the oldest request.
func (w *window) take() *ucp.Request {
	req := w.ring[w.first]
	w.ring[w.first] = nil
	if w.first++; w.first == len(w.ring) {
		w.first = 0
	}
	w.count--
	return req
}
