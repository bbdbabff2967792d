package ucp

import "github.com/ucx-go/ucx/uct"

// Some memory domains want local handles of the memory that is sent from or
// received into without copies (uct.MDFlagNeedMemh). The caller may give
// registered memory with the operation; other memory is registered until the
// operation is over. Such registrations are not kept for the next operation: the
// memory is Go's, and its pages may be gone by then.

// handles sees to it that a zero-copy operation has the handles it needs. If it
// cannot have them it must go another way.
func (r *Request) handles(way *rkeyWay, p *RequestParams, access uct.Access) bool {
	if way.md.Attr().Flags&uct.MDFlagNeedMemh == 0 {
		return true
	}
	if p != nil && p.Memory != nil {
		if h := p.Memory.handles[way.mdIndex]; h != nil {
			r.exposed = append(r.exposed, exposure{mem: h})
			return true
		}
	}
	if r.data.class == DatatypeContig {
		return r.register(way.md, r.data.buf, access)
	}
	for _, b := range r.data.list {
		if !r.register(way.md, b, access) {
			return false
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
	r.exposed = append(r.exposed, exposure{md, h})
	return true
}

// addHandles completes the first n entries of the request's list.
func (r *Request) addHandles(n int) {
	if len(r.exposed) == 0 {
		return
	}
	for i := range r.iov[:n] {
		for _, e := range r.exposed {
			if within(e.mem.Bytes(), r.iov[i].Data) {
				r.iov[i].Mem = e.mem
				break
			}
		}
	}
}
