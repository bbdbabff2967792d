//go:build linux

package main

import "github.com/ucx-go/ucx/ucp"

// Extra information (-X) is what the library says about the first operation of a stage
// of the side that is measured, which has to have a request for that.

// askInfo has the next operation give a request.
func (r *ucpRunner) askInfo() {
	if !r.p.extra || r.g.index() == 0 && !r.g.loopback() {
		return
	}
	r.asking = r.send
	r.asking.Flags |= ucp.OpNoImmediate
	r.usual, r.sendParams = r.sendParams, &r.asking
}

// tookInfo asks the request, and nothing of those that follow.
func (r *ucpRunner) tookInfo(req *ucp.Request) {
	if a, err := req.Attr(); err == nil {
		r.c.info = a.Info
	} else {
		r.c.info = err.Error()
	}
	r.sendParams = r.usual
}

// started takes a request of a send or access that has not finished in its call.
func (r *ucpRunner) started(req *ucp.Request) {
	if r.sendParams == &r.asking {
		r.tookInfo(req)
	}
	r.sends.add(req)
}
