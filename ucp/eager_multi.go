package ucp

import "github.com/ucx-go/ucx/uct"

// The protocols of eager messages in fragments.

// eagerMultiBcopy sends the fragments of a message, copied.
type eagerMultiBcopy struct{ eager }

func (eagerMultiBcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi copy-in", kind: kindEager}
}

func (eagerMultiBcopy) progress(r *Request) error {
	for r.offset < r.data.length {
		e := r.rail()
		r.frag = 0
		r.comp.Count++
		_, err := r.ep.lane(e.lane).AMBcopy(uct.AMID(r.form.fragment(r).id), r.hooks(), 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiBcopy) pack(r *Request, dst []byte) int {
	return packEager(r, r.form.fragment(r), dst[:min(len(dst), r.rail().bcopy)])
}

// eagerMultiZcopy sends the fragments of a message from the user's memory.
type eagerMultiZcopy struct{ eager }

func (eagerMultiZcopy) about() protocolInfo {
	return protocolInfo{name: "eager multi zero-copy", kind: kindEager}
}

func (eagerMultiZcopy) progress(r *Request) error {
	for r.offset < r.data.length {
		e := r.rail()
		if e.zcopy == 0 {
			r.step++
			continue
		}
		packet := r.form.fragment(r)
		var n int
		list, limit := r.iovec(), e.zcopy-packet.size
		if r.form.active {
			list, limit = list[:len(list)-1], limit-r.tailSize(&packet.tail)
		}
		n, r.frag = r.data.gather(list, r.offset, limit)
		n = r.gatherTail(n, &packet.tail)
		r.addHandles(n, e.lane)
		r.comp.Count++
		err := r.ep.lane(e.lane).AMZcopy(uct.AMID(packet.id), r.hooks(), r.iov[:n], 0, &r.comp)
		if err := r.fragmentSent(err); err != nil {
			return err
		}
		r.step++
	}
	r.countSent(&r.w.stats.EagerMulti)
	r.comp.Done(nil)
	return nil
}

func (eagerMultiZcopy) pack(r *Request, dst []byte) int { return r.form.fragment(r).put(r, dst) }
