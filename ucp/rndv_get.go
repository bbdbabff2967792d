package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// rndvGet reads the data of an offer from the sender's memory; rndvTell then lets
// go of the sender. The receive is over only when that has left: whoever waited
// for it may not progress for a while.
type rndvGet struct{ basics }

func (rndvGet) about() protocolInfo { return protocolInfo{name: "rndv get zero-copy", kind: kindRead} }

// progress reads over one lane after the other.
func (rndvGet) progress(r *Request) error {
	c, f := r.ep.cfg, r.fetch
	shares := c.rndv.GetShares()
	for ; int(r.step) < shares.Lanes(); r.step++ {
		k, _, end := shares.Part(int(r.step), f.size)
		l := &c.get[k]
		r.lane = l.lane
		ue := r.ep.remote(l.lane)
		for r.offset < end {
			var n int
			n, r.frag = r.data.gather(r.iovec(), r.offset, min(end-r.offset, l.max))
			r.addHandles(n, l.lane)
			r.comp.Count++
			err := ue.GetZcopy(r.iov[:n], f.source+uint64(r.offset), r.keyOf(&f.keys, c.get, k), &r.comp)
			if err := r.fragmentSent(err); err != nil {
				if err == ucs.ErrNoResource {
					return err
				}
				r.comp.Done(err) // the sender has to be told
				return nil
			}
		}
	}
	r.lane = r.ep.amLane()
	r.comp.Done(nil)
	return nil
}

func (rndvGet) completed(r *Request, err error) { r.fetched(err) }

// fetched is told that the data is here, or will not come.
func (r *Request) fetched(err error) {
	if gone := r.ep.gone(); gone != nil {
		if err == nil {
			err = gone
		}
		r.finish(err)
		return
	}
	r.fetch.result, r.lane = err, r.ep.amLane()
	r.proto = rndvTell{}
	r.comp.Count, r.comp.Err = 1, nil
	r.run()
}

// rndvTell tells the sender that its data was read.
type rndvTell struct{ basics }

func (rndvTell) about() protocolInfo { return protocolInfo{name: "rndv get ats", kind: kindRead} }

func (t rndvTell) progress(r *Request) error {
	_, err := r.ep.ue.AMBcopy(uct.AMID(proto.IDRndvATS), r.hooks(), 0, &r.comp)
	switch err {
	case nil:
		t.completed(r, nil)
		return nil
	case ucs.InProgress:
		return nil
	}
	return err
}

func (rndvTell) pack(r *Request, dst []byte) int {
	f := r.fetch
	return proto.RndvAck{ReqID: proto.RequestID(r.peerID), Status: ucs.StatusOf(f.result), Size: f.size, HasSize: true}.Put(dst)
}

// completed is told that the ATS has left.
func (rndvTell) completed(r *Request, err error) {
	if r.fetch.result != nil {
		err = r.fetch.result
	}
	r.finish(err)
}
