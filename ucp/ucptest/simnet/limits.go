//go:build simulate

package simnet

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucs"
)

// Limits are amounts of the resources of a process.
type Limits struct {
	Descriptors  int64
	Memory       int64 // bytes of mappings
	SharedMemory int64 // bytes in /dev/shm
	LockedMemory int64 // bytes of memory that devices access
}

// Used returns what the process uses. It is zero when everything is closed.
func (p *Process) Used() Limits { return p.used }

// Claims returns the number of requests of resources so far.
func (p *Process) Claims() uint64 { return p.claims }

// resources are the fields of Limits with the errors at the limit, which are those of the real
// transports.
var resources = []struct {
	name string
	of   func(l *Limits) *int64
	err  error
}{
	{"descriptors", func(l *Limits) *int64 { return &l.Descriptors }, fmt.Errorf("%w: %w", platform.ErrFiles, ucs.ErrIO)},
	{"bytes of mappings", func(l *Limits) *int64 { return &l.Memory }, fmt.Errorf("%w: %w", platform.ErrMemory, ucs.ErrNoMemory)},
	{"bytes of shared memory", func(l *Limits) *int64 { return &l.SharedMemory }, fmt.Errorf("%w: %w", platform.ErrSpace, ucs.ErrNoMemory)},
	{"bytes of locked memory", func(l *Limits) *int64 { return &l.LockedMemory }, fmt.Errorf("%w: %w", platform.ErrMemory, ucs.ErrNoMemory)},
}

// claim takes n times the amounts of l, or gives them back if n is negative.
func (p *Process) claim(l Limits, n int64) error {
	if l == (Limits{}) {
		return nil
	}
	if n > 0 && !p.ended {
		p.claims++
		refuse := p.Refuse != nil && p.Refuse(p.claims)
		for _, r := range resources {
			amount, used, most := *r.of(&l)*n, *r.of(&p.used), *r.of(&p.Limits)
			if amount > 0 && (refuse || most > 0 && used+amount > most) {
				p.w.Count.Refused++
				return fmt.Errorf("simnet: %d %s beside %d: %w", amount, r.name, used, r.err)
			}
		}
	}
	for _, r := range resources {
		*r.of(&p.used) += *r.of(&l) * n
	}
	return nil
}

// Claim implements platform.World.
func (w *World) Claim(n int) error {
	if w.process == nil {
		return nil
	}
	return w.process.claim(Limits{Descriptors: 1}, int64(n))
}
