package ucp

import "github.com/ucx-go/ucx/uct"

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
func (r *Request) memory() *requestMemory {
	if r.mem == nil {
		r.mem = new(requestMemory)
	}
	return r.mem
}

// letGo ends all registrations.
func (m *requestMemory) letGo() {
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
