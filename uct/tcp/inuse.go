//go:build linux

package tcp

import "github.com/ucx-go/ucx/uct"

var _ uct.UseReporter = (*domain)(nil)

// InUse implements uct.UseReporter: it reports whether only a part of a peer's put has arrived in
// the memory.
func (m *domain) InUse(h uct.MemHandle) bool {
	r, ok := h.(*region)
	return ok && r.arriving.Load() > 0
}

// hold counts the put in its region while the rest of it is to arrive; drop ends that, because the
// rest has arrived, goes to another region or will not arrive. Most puts arrive together with their
// announcement and are not counted.
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
