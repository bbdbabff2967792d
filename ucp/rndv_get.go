package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// rndvGet reads the data of an offer from the sender's memory. The transport
// finishes it; an ATS with the result lets go of the sender.
var rndvGet protocol

func init() {
	rndvGet = protocol{name: "tag rndv get zero-copy", progress: progressRndvGet, completed: getDone}
}

// progressRndvGet reads over one lane after the other.
func progressRndvGet(r *Request) error {
	c := r.ep.cfg
	shares := c.rndv.GetShares()
	for ; int(r.step) < shares.Lanes(); r.step++ {
		k, _, end := shares.Part(int(r.step), r.part.n)
		l := &c.get[k]
		r.lane = l.lane
		for r.offset < end {
			var n int
			n, r.frag = r.data.gather(r.iovec(), r.offset, min(end-r.offset, l.max))
			r.comp.Count++
			err := r.ep.lane(l.lane).GetZcopy(r.iov[:n], r.part.addr+uint64(r.offset), nil, &r.comp)
			if err := r.fragmentSent(err); err != nil {
				return err
			}
		}
	}
	r.lane = amLane
	r.comp.Done(nil)
	return nil
}

// getDone is told that the data is here, or will not come.
func getDone(r *Request, err error) {
	if r.ep.err == nil && r.ep.state&epClosed == 0 {
		r.ep.sendATS(proto.RequestID(r.peerID), r.part.n, ucs.StatusOf(err))
	}
	r.finish(err)
}
