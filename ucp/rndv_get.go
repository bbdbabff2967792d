package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rndvGet reads the data of an offer from the sender's memory; rndvGetATS then lets
// go of the sender. The receive is over only when that has left: whoever waited
// for it may not progress for a while.
var rndvGet, rndvGetATS protocol

func init() {
	rndvGet = protocol{name: "tag rndv get zero-copy", progress: progressRndvGet, completed: getDone}
	rndvGetATS = protocol{name: "tag rndv get ats", progress: progressGetATS, completed: getOver, pack: packGetATS}
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
			r.addHandles(n, l.lane)
			r.comp.Count++
			err := r.ep.remote(l.lane).GetZcopy(r.iov[:n], r.part.addr+uint64(r.offset), nil, &r.comp)
			if err := r.fragmentSent(err); err != nil {
				if err == ucs.ErrNoResource {
					return err
				}
				r.comp.Done(err) // the sender has to be told
				return nil
			}
		}
	}
	r.lane = amLane
	r.comp.Done(nil)
	return nil
}

// getDone is told that the data is here, or will not come.
func getDone(r *Request, err error) {
	if gone := r.ep.gone(); gone != nil {
		if err == nil {
			err = gone
		}
		r.finish(err)
		return
	}
	r.err, r.lane = err, amLane
	r.proto = &rndvGetATS
	r.comp.Count, r.comp.Err = 1, nil
	r.run()
}

func progressGetATS(r *Request) error {
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvATS), r, 0, &r.comp)
	switch err {
	case nil:
		getOver(r, nil)
		return nil
	case ucs.InProgress:
		return nil
	}
	return err
}

func packGetATS(r *Request, dst []byte) int {
	h := proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: ucs.StatusOf(r.err), Size: r.part.n, HasSize: true}
	return h.Put(dst)
}

// getOver is told that the ATS has left.
func getOver(r *Request, err error) {
	if r.err != nil {
		err = r.err
	}
	r.finish(err)
}
