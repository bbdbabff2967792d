//go:build linux

package tcp

import "github.com/ucx-go/ucx/uct"

var _ uct.UseReporter = (*domain)(nil)

// InUse implements uct.UseReporter: a put of a peer that has begun to arrive in the
// memory is not there whole.
func (m *domain) InUse(h uct.MemHandle) bool {
	r, ok := h.(*region)
	return ok && r.arriving.Load() > 0
}

// hold notes that the rest of the put is still to come, drop that it is here, goes
// elsewhere or will not come. Most puts are there with their announcement.
func (p *putRecv) hold() {
	if p.left > 0 && !p.held {
		p.region.arriving.Add(1)
		p.held = true
	}
}

func (p *putRecv) drop() {
	if p.held {
		p.region.arriving.Add(-1)
		p.held = false
	}
}
