//go:build linux

package main

import "github.com/ucx-go/ucx/ucp"

// window is the requests of one kind that are in flight. Nobody is called when
// one of them finishes: on a shared worker it could be any thread. They are
// looked at instead, in the order they were started.
type window struct {
	ring  []*ucp.Request
	first int
	count int
}

func newWindow(size int) window { return window{ring: make([]*ucp.Request, size)} }

// full reports whether there is no room for another request.
func (w *window) full() bool { return w.count == len(w.ring) }

// add puts a request in, of which there is none if its operation has finished in
// the call.
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

// take takes the oldest request out.
func (w *window) take() *ucp.Request {
	req := w.ring[w.first]
	w.ring[w.first] = nil
	if w.first++; w.first == len(w.ring) {
		w.first = 0
	}
	w.count--
	return req
}
