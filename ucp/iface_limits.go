package ucp

import (
	"math"

	"github.com/ucx-go/ucx/uct"
)

// limited returns what an interface can do of what the settings allow: a itself where they
// allow all of it.
func (s *settings) limited(a *uct.IfaceAttr) *uct.IfaceAttr {
	l := *a
	seg := max(s.ZcopySeg.Int(math.MaxInt), 1)
	l.Put.MaxZcopy = min(a.Put.MaxZcopy, max(seg, a.Put.MinZcopy))
	l.Get.MaxZcopy = min(a.Get.MaxZcopy, max(seg, a.Get.MinZcopy))
	if s.AtomicMode == atomicCPU && !a.Flags.Has(uct.IfaceAtomicCPU) || s.AtomicMode == atomicDevice && !a.Flags.Has(uct.IfaceAtomicDevice) {
		l.Atomic32, l.Atomic64 = uct.AtomicOps{}, uct.AtomicOps{}
	}
	if l.Put.MaxZcopy == a.Put.MaxZcopy && l.Get.MaxZcopy == a.Get.MaxZcopy && l.Atomic32 == a.Atomic32 && l.Atomic64 == a.Atomic64 {
		return a
	}
	return &l
}
