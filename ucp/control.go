package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Control messages are sent by the library itself: wireup, acknowledgements,
// rendezvous answers. Their requests belong to nobody and vanish when sent. They
// are small and copied, so "buffered" is as good as "sent".

// control makes a request for a control message.
func (ep *Endpoint) control(p protocol) *Request {
	r := ep.w.getRequest()
	r.toward(ep)
	r.proto, r.state = p, stateFreed
	return r
}

// sendControl is the progress of a control message that its protocol packs.
func (r *Request) sendControl(id proto.AMID, flags uct.SendFlags) error {
	_, err := r.ep.lane(r.lane).AMBcopy(uct.AMID(id), r.hooks(), flags, nil)
	return controlSent(r, err)
}

// controlSent turns the result of sending a control message into the result of
// its protocol's progress.
func controlSent(r *Request, err error) error {
	if err == nil || err == ucs.InProgress {
		r.finish(nil)
		return nil
	}
	return err
}
