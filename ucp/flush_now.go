package ucp

import (
	"cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A flush with OpForceImmediate is done in the call if nothing is left to wait for, and
// otherwise starts nothing. What the transports send to find that out, as tcp does behind
// messages, is answered later, and then the next such flush has less to wait for.

// flushNow flushes the endpoint, if that takes no waiting.
func (ep *Endpoint) flushNow() error {
	if len(ep.lanes) == 0 || ep.waiting.head != nil {
		return ucs.ErrNoResource
	}
	if f := ep.rma; f != nil && (f.copies.busy() || !f.quiet()) {
		return ucs.ErrNoResource
	}
	for i := range ep.lanes {
		err := ep.lanes[i].uct.Flush(uct.FlushRemote, nil)
		if err == ucs.InProgress {
			err = ucs.ErrNoResource
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushNow flushes all endpoints, if that takes no waiting.
func (w *Worker) flushNow() (err error) {
	w.endpoints.Each(func(ep *Endpoint) {
		if ep.err == nil && err == nil && ep.flushNow() != nil {
			err = ucs.ErrNoResource
		}
	})
	if err == nil {
		w.endpoints.Each(func(ep *Endpoint) {
			if ep.err == nil {
				err = cmp.Or(err, ep.takeLost())
			}
		})
	}
	return err
}

// flushedNow ends the request of a flush with OpForceImmediate in its call.
func (r *Request) flushedNow(err error) (*Request, error) {
	if err == ucs.ErrNoResource {
		r.w.dropRequest(r)
		return nil, err
	}
	r.finish(err)
	return r.result()
}
