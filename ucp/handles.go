package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// Some memory domains want local handles of the memory that is sent from or
// received into without copies (uct.MDFlagNeedMemh). The caller may give
// registered memory with the operation; other memory is registered until the
// operation is over. Such registrations are not kept for the next operation: the
// memory is Go's, and its pages may be gone by then.

// handles sees to it that an operation has the handles that a domain wants of
// what it sends or receives without copies. m is registered memory that was given
// with it, nil for none. If it cannot have them it must go another way.
func (r *Request) handles(md uct.MemoryDomain, index int, m *Memory, access uct.Access) bool {
	if md.Attr().Flags&uct.MDFlagNeedMemh == 0 {
		return true
	}
	for i := range r.exposed {
		if e := &r.exposed[i]; e.local && e.md == md {
			return true // it had them already
		}
	}
	if m != nil {
		if h := m.handles[index]; h != nil {
			r.exposed = append(r.exposed, exposure{md: md, mem: h, local: true, borrowed: true})
			return true
		}
	}
	if r.data.class == DatatypeContig {
		return r.register(md, r.data.buf, access)
	}
	for _, b := range r.data.list {
		if !r.register(md, b, access) {
			return false
		}
	}
	return true
}

// laneHandles is handles for a lane.
func (r *Request) laneHandles(lane uint8, m *Memory, access uct.Access) bool {
	if !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.ep.lanes[lane].iface.md
	return r.handles(r.w.mds[md], md, m, access)
}

// shareHandles is laneHandles for all lanes over which n bytes go.
func (r *Request) shareHandles(lanes []memoryLane, shares *proto.LaneShares, n int, access uct.Access) bool {
	if !r.ep.cfg.needMemh {
		return true
	}
	for step := range shares.Lanes() {
		k, _, _ := shares.Part(step, n)
		if !r.laneHandles(lanes[k].lane, nil, access) {
			return false
		}
	}
	return true
}

// sendHandles sees to it that a send that starts has the handles that its protocol
// needs at once, and keeps those of memory given with it for later.
func (r *Request) sendHandles(p *RequestParams) bool {
	if !r.ep.cfg.needMemh {
		return true
	}
	var m *Memory
	if p != nil && p.Memory != nil && p.Memory.covers(r.w.ctx, &r.data) {
		m = p.Memory
	}
	switch r.proto {
	case &eagerZcopy, &eagerMultiZcopy:
		return r.laneHandles(r.ep.amLane(), m, uct.AccessLocalRead)
	case &rndvRTS:
		for i := range r.ep.lanes {
			if md := r.ep.lanes[i].iface.md; m != nil && m.handles[md] != nil {
				r.laneHandles(uint8(i), m, uct.AccessLocalRead)
			}
		}
	}
	return true
}

// register registers a part of the user's memory until the request is over. A
// refusal takes back what was registered before.
func (r *Request) register(md uct.MemoryDomain, b []byte, access uct.Access) bool {
	if len(b) == 0 {
		return true
	}
	h, err := md.Register(b, access)
	if err != nil {
		r.conceal()
		return false
	}
	r.exposed = append(r.exposed, exposure{md: md, mem: h, local: true})
	return true
}

// addHandles completes the first n entries of the request's list for a lane.
func (r *Request) addHandles(n int, lane uint8) {
	if len(r.exposed) == 0 || int(lane) >= len(r.ep.lanes) {
		return
	}
	r.addHandlesOf(r.w.mds[r.ep.lanes[lane].iface.md], n)
}

func (r *Request) addHandlesOf(md uct.MemoryDomain, n int) {
	for i := range r.iov[:n] {
		r.iov[i].Mem = nil
		for k := range r.exposed {
			if e := &r.exposed[k]; e.local && e.md == md && within(e.mem.Bytes(), r.iov[i].Data) {
				r.iov[i].Mem = e.mem
				break
			}
		}
	}
}
