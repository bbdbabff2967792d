//go:build linux

package main

import "github.com/ucx-go/ucx/ucp"

// Extra information (-X) is the library's description of the first operation of a stage on the
// measured side. That operation must return a request, from which the description is read.

// askInfo makes the next operation return a request.
func (r *ucpRunner) askInfo() {
	if !r.p.extra || r.g.index() == 0 && !r.g.loopback() {
		return
	}
	r.asking = r.send
	r.asking.Flags |= ucp.OpNoImmediate
	r.usual, r.sendParams = r.sendParams, &r.asking
}

// tookInfo reads the description from the request, and restores the parameters for later
// operations.
func (r *ucpRunner) tookInfo(req *ucp.Request) {
	if a, err := req.Attr(); err == nil {
		r.c.info = a.Info
	} else {
		r.c.info = err.Error()
	}
	r.sendParams = r.usual
}

// started records a request of a send or access that has not completed in its call.
func (r *ucpRunner) started(req *ucp.Request) {
	if r.sendParams == &r.asking {
		r.tookInfo(req)
	}
	r.sends.add(req)
}
