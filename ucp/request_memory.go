package ucp

import (
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/datatype"
	"github.com/ucx-go/ucx/uct"
)

// requestMemory holds the registrations that a request made or was given, until the request ends.
type requestMemory struct {
	given   *Memory       // registered memory that was checked to contain the buffer, nil if none
	handles []localHandle // local registrations, for lanes whose domains need them
	exposed []exposure    // registrations that the peer may access
	rkey    uct.Rkey      // argument of the current transport call (keyOf)
}

// localHandle is a handle of memory that is sent from or received into.
type localHandle struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	borrowed bool // the registration belongs to requestMemory.given and is not deregistered here
}

// memory returns the request's requestMemory, and creates it if there is none.
func (mr *memoryRights) memory(r *Request) *requestMemory {
	if r.mem == nil {
		r.mem = new(requestMemory)
	}
	return r.mem
}

// releaseHandles ends all registrations of the request.
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

// dropHandles ends the registrations for lanes of this worker.
func (m *requestMemory) dropHandles() {
	for _, h := range m.handles {
		if !h.borrowed {
			// The library made this registration, so Deregister has no reason to refuse it.
			_ = h.md.Deregister(h.mem)
		}
	}
	clear(m.handles)
	m.handles = m.handles[:0]
}

// expose opens buf, memory of the application, to the peer of an endpoint, and only to that peer
// where a domain can tell peers apart. It returns the address of buf. If a domain refuses, the
// memory stays closed and the result is 0.
func (m *requestMemory) expose(buf []byte, guards []guard, access uct.Access, ep *Endpoint) uint64 {
	for k := range guards {
		mem, err := guards[k].register(buf, access, ep)
		if err != nil {
			m.conceal()
			return 0
		}
		m.exposed = append(m.exposed, exposure{md: guards[k].md, mem: mem})
	}
	return word.Address(buf)
}

// conceal closes the exposed memory again.
func (m *requestMemory) conceal() {
	for _, e := range m.exposed {
		if !e.borrowed {
			_ = e.md.Deregister(e.mem) // as in dropHandles
		}
	}
	clear(m.exposed)
	m.exposed = m.exposed[:0]
}

// has reports whether the request has handles of a domain.
func (m *requestMemory) has(md uct.MemoryDomain) bool {
	for i := range m.handles {
		if m.handles[i].md == md {
			return true
		}
	}
	return false
}

// register registers b, a part of the application's memory, with a domain, and reports success. A
// refusal drops all handles.
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

// addTo sets the handle of each entry of iov: the one of domain md that covers the entry's data, or
// nil.
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

// Some memory domains want local handles of the memory that is sent from or received into without
// copies (uct.MDFlagNeedMemh). The caller may give registered memory with the operation, or may
// have registered memory that contains the buffer. Any other buffer is registered until the
// operation is over. Such a registration is not kept for the next operation: the memory belongs to
// the Go runtime, and its pages may be gone by then.

// attachMemory attaches registered memory that the caller gave with an operation, if it does hold the
// buffer.
func (mr *memoryRights) attachMemory(r *Request, m *Memory) {
	if m == nil {
		return
	}
	if c := mr.delegated; c != nil && c.memory == m { // the use of the call becomes that of the operation
		mr.memory(r).given, c.memory = m, nil
	} else if m.covers(r.w.ctx, &r.data) && m.use() {
		mr.memory(r).given = m
	}
}

// handles makes sure that an operation has the handles that a domain wants for data sent or
// received without copies. The parameter index is the index of md in the context. If it returns
// false, the operation must take another protocol.
func (mr *memoryRights) handles(r *Request, md uct.MemoryDomain, index int, access uct.Access) bool {
	if md.Attr().Flags&uct.MDFlagNeedMemh == 0 {
		return true
	}
	m := mr.memory(r)
	if m.has(md) {
		return true
	}
	mr.findMemory(r, index)
	if m.given != nil {
		if h := m.given.handles[index]; h != nil {
			m.handles = append(m.handles, localHandle{md: md, mem: h, borrowed: true})
			return true
		}
	}
	if r.data.Class == datatype.Contig {
		return m.register(md, r.data.Buf, access)
	}
	for _, b := range r.data.List {
		if !m.register(md, b, access) {
			return false
		}
	}
	return true
}

// findMemory attaches the registered memory that contains the buffer, if none was given and that
// memory is registered with the domain of an index. Replies to peers do not use it: the memory
// could not be closed while a reply is in flight.
func (mr *memoryRights) findMemory(r *Request, index int) {
	if r.mem.given != nil || r.data.Class != datatype.Contig || r.data.Length == 0 || r.is(kindAnswer) {
		return
	}
	region := r.w.ctx.table.Holder(word.Address(r.data.Buf), len(r.data.Buf))
	if region == nil {
		return
	}
	if m, ok := region.Owner.(*Memory); ok && m.handles[index] != nil && m.use() {
		r.mem.given = m
	}
	region.Release()
}

// laneHandles calls handles for the domain of a lane.
func (mr *memoryRights) laneHandles(r *Request, lane uint8, access uct.Access) bool {
	if !r.ep.cfg.needMemh || int(lane) >= len(r.ep.lanes) {
		return true
	}
	md := r.ep.lanes[lane].iface.md
	return mr.handles(r, r.w.mds[md], md, access)
}

// shareHandles calls laneHandles for all lanes that share n bytes.
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

// addHandles sets the handles of the first n entries of the request's list, for the domain of a
// lane.
func (mr *memoryRights) addHandles(r *Request, n int, lane uint8) {
	if r.mem == nil || len(r.mem.handles) == 0 || int(lane) >= len(r.ep.lanes) {
		return
	}
	r.mem.addTo(r.iov[:n], r.w.mds[r.ep.lanes[lane].iface.md])
}

// iovec returns the request's scatter-gather list, with room for as many entries as the endpoint's
// configuration allows.
func (mr *memoryRights) iovec(r *Request) []uct.IOV {
	if n := r.ep.cfg.maxIOV; len(r.iov) < n {
		r.iov = make([]uct.IOV, n)
	}
	return r.iov
}

// exposure is memory that a peer may access.
type exposure struct {
	md       uct.MemoryDomain
	mem      uct.MemHandle
	index    uint8 // index of md in the context
	keyed    bool  // peers need a key to access the memory
	borrowed bool  // the registration belongs to a Memory and is not deregistered here
}
