package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// requestMemory is what a request has registered, or was given registered, as long
// as it lives.
type requestMemory struct {
	given   *Memory       // holds the buffer, by the caller's word that was checked
	handles []localHandle // for lanes of ours that want them
	exposed []exposure    // for the peer
	rkey    uct.Rkey      // given to the transport just now
}

// localHandle is a handle of memory that is sent from or received into.
type localHandle struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	borrowed bool // somebody else's registration
}

// memory returns the request's registrations.
func (mr *memoryRights) memory(r *Request) *requestMemory {
	if r.mem == nil {
		r.mem = new(requestMemory)
	}
	return r.mem
}

// releaseHandles ends all registrations.
func (m *requestMemory) releaseHandles() {
	if m.given != nil {
		m.given.unuse()
		m.given = nil
	}
	if len(m.handles) > 0 {
		m.dropHandles()
	}
	if len(m.exposed) > 0 {
		m.conceal()
	}
}

// dropHandles ends those for lanes of ours.
func (m *requestMemory) dropHandles() {
	for _, h := range m.handles {
		if !h.borrowed {
			// It is a registration of ours: there is nothing it could be refused for.
			_ = h.md.Deregister(h.mem)
		}
	}
	clear(m.handles)
	m.handles = m.handles[:0]
}

// expose opens the user's memory to the peer of an endpoint, and to nobody else where
// a domain can tell, and returns its address. If a domain refuses, it stays closed:
// then that is 0.
func (m *requestMemory) expose(buf []byte, guards []guard, access uct.Access, ep *Endpoint) uint64 {
	for k := range guards {
		mem, err := guards[k].register(buf, access, ep)
		if err != nil {
			m.conceal()
			return 0
		}
		m.exposed = append(m.exposed, exposure{md: guards[k].md, mem: mem})
	}
	return memoryAddress(buf)
}

// conceal closes it again.
func (m *requestMemory) conceal() {
	for _, e := range m.exposed {
		if !e.borrowed {
			_ = e.md.Deregister(e.mem) // as above
		}
	}
	clear(m.exposed)
	m.exposed = m.exposed[:0]
}

// has reports whether there are handles of a domain.
func (m *requestMemory) has(md uct.MemoryDomain) bool {
	for i := range m.handles {
		if m.handles[i].md == md {
			return true
		}
	}
	return false
}

// register registers a part of the user's memory. A refusal takes back all
// handles.
func (m *requestMemory) register(md uct.MemoryDomain, b []byte, access uct.Access) bool {
	if len(b) == 0 {
		return true
	}
	h, err := md.Register(b, access)
	if err != nil {
		m.dropHandles()
		return false
	}
	m.handles = append(m.handles, localHandle{md: md, mem: h})
	return true
}

// addTo completes the entries of a list with the handles of a domain.
func (m *requestMemory) addTo(iov []uct.IOV, md uct.MemoryDomain) {
	for i := range iov {
		iov[i].Mem = nil
		for k := range m.handles {
			if h := &m.handles[k]; h.md == md && within(h.mem.Bytes(), iov[i].Data) {
				iov[i].Mem = h.mem
				break
			}
		}
	}
}

// Some memory domains want local handles of the memory that is sent from or
// received into without copies (uct.MDFlagNeedMemh). The caller may give registered
// memory with the operation, or have registered what the buffer lies in; other memory is
// registered until the operation is over. Such registrations are not kept for the next
// operation: the memory is Go's, and its pages may be gone by then.

// give notes registered memory that was given with an operation, if it really
// holds the buffer.
func (mr *memoryRights) give(r *Request, m *Memory) {
	if m != nil && m.covers(r.w.ctx, &r.data) && m.use() {
		mr.memory(r).given = m
	}
}

// handles sees to it that an operation has the handles that a domain, by its index
// in the context, wants of what it sends or receives without copies. If it cannot
// have them it must go another way.
func (mr *memoryRights) handles(r *Request, md uct.MemoryDomain, index int, access uct.Access) bool {
	if md.Attr().Flags&uct.MDFlagNeedMemh == 0 {
		return true
	}
	m := mr.memory(r)
	if m.has(md) {
		return true
	}
	mr.seekMemory(r, index)
	if m.given != nil {
		if h := m.given.handles[index]; h != nil {
			m.handles = append(m.handles, localHandle{md: md, mem: h, borrowed: true})
			return true
		}
	}
	if r.data.class == DatatypeContig {
		return m.register(md, r.data.buf, access)
	}
	for _, b := range r.data.list {
		if !m.register(md, b, access) {
			return false
		}
	}
	return true
}

// seekMemory takes the registered memory that the buffer lies in, if none was given and it
// is registered with a domain, by its index. Answers to peers do without: as long as one is
// on its way the memory could not be closed.
func (mr *memoryRights) seekMemory(r *Request, index int) {
	if r.mem.given != nil || r.data.class != DatatypeContig || r.data.length == 0 || r.is(kindAnswer) {
		return
	}
	region := r.w.ctx.table.Holder(memoryAddress(r.data.buf), len(r.data.buf))
	if region == nil {
		return
	}
	if m, ok := region.Owner.(*Memory); ok && m.handles[index] != nil && m.use() {
		r.mem.given = m
	}
	region.Release()
}

// laneHandles is handles for a lane.
func (mr *memoryRights) laneHandles(r *Request, lane uint8, access uct.Access) bool {
	if !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.ep.lanes[lane].iface.md
	return mr.handles(r, r.w.mds[md], md, access)
}

// shareHandles is laneHandles for all lanes over which n bytes go.
func (mr *memoryRights) shareHandles(r *Request, lanes []memoryLane, shares *proto.LaneShares, n int, access uct.Access) bool {
	if !r.ep.cfg.needMemh {
		return true
	}
	for step := range shares.Lanes() {
		k, _, _ := shares.Part(step, n)
		if !mr.laneHandles(r, lanes[k].lane, access) {
			return false
		}
	}
	return true
}

// addHandles completes the first n entries of the request's list for a lane.
func (mr *memoryRights) addHandles(r *Request, n int, lane uint8) {
	if r.mem == nil || len(r.mem.handles) == 0 || int(lane) >= len(r.ep.lanes) {
		return
	}
	r.mem.addTo(r.iov[:n], r.w.mds[r.ep.lanes[lane].iface.md])
}

// iovec returns the request's scatter-gather list, as long as the transport
// takes them.
func (mr *memoryRights) iovec(r *Request) []uct.IOV {
	if n := r.ep.cfg.maxIOV; len(r.iov) < n {
		r.iov = make([]uct.IOV, n)
	}
	return r.iov
}

// exposure is memory that a peer may reach.
type exposure struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	index    uint8 // of md in the context
	keyed    bool  // for peers that have the key
	borrowed bool  // somebody else's registration
}
