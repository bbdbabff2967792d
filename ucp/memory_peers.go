package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Allow gives the peer of an endpoint access to memory that was mapped for selected peers
// (MemMapParams.Peers). The peer may use any of its endpoints to this worker, until the
// application closes its last endpoint to the peer. Other memory gives ucs.ErrInvalidParam.
// Allow is a call of the endpoint's worker: in the single-goroutine thread modes it belongs
// to the worker's goroutine.
func (m *Memory) Allow(ep *Endpoint) error {
	if m.missing() {
		return errMissing("Memory.Allow", m == nil)
	}
	switch {
	case !m.limited || ep == nil || ep.w.ctx != m.ctx:
		return fmt.Errorf("ucp: Memory.Allow: endpoint: %w", ucs.ErrInvalidParam)
	case m.region == nil:
		return nil // of an empty handle there is nothing to access
	}
	ep.w.look()
	defer ep.w.unlook()
	if err := ep.usable(); err != nil {
		return err
	}
	if len(ep.lanes) == 0 {
		return ucs.ErrNotConnected // it is closed
	}
	m.ctx.mu.Lock()
	defer m.ctx.mu.Unlock()
	if err := m.live(); err != nil {
		return err
	}
	m.region.Admit(ep.identity())
	for k := range ep.w.scopers {
		s := &ep.w.scopers[k]
		md := ep.w.mds[s.md]
		a := md.Attr()
		if a.Flags&uct.MDFlagNeedRkey != 0 || a.Flags&uct.MDFlagRegister == 0 || uint64(len(m.buf)) > a.MaxReg {
			continue
		}
		mem, err := s.RegisterFor(m.buf, m.region.Access, ep.where.scopes[k])
		if err != nil {
			return err
		}
		m.scoped = append(m.scoped, exposure{md: md, mem: mem})
	}
	return nil
}

// identity stands for the endpoint's peer: whichever of its endpoints a message
// names, it is the same.
func (ep *Endpoint) identity() any {
	if ep.peer == nil {
		return ep.w // the worker itself
	}
	return ep.peer.now()
}
