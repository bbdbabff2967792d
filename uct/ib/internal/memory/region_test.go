//go:build linux

package memory

import (
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestFreeRegions checks that a bounded number of deregistered regions is kept for reuse, and that
// none of them holds its memory.
func TestFreeRegions(t *testing.T) {
	k := verbstest.New()
	ctx, err := verbs.NewContext(k.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	d := &Space{ctx: ctx, pd: pd, locks: true}
	for range 2 {
		var list []uct.MemHandle
		for range maxFree + 10 {
			m, err := d.Register(make([]byte, 100), uct.AccessLocalRead)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, m)
		}
		if len(d.regions.free) != 0 {
			t.Errorf("%d regions are free and were not used", len(d.regions.free))
		}
		for _, m := range list {
			if err := d.Deregister(m); err != nil {
				t.Fatal(err)
			}
			if err := d.Deregister(m); err == nil {
				t.Fatal("deregistered twice")
			}
		}
		if n := len(d.regions.free); n != maxFree {
			t.Errorf("%d regions are kept, not %d", n, maxFree)
		}
		for _, r := range d.regions.free {
			if r.b != nil || r.mr.Bytes() != nil || r.space != nil {
				t.Fatal("a region that is over keeps its memory")
			}
		}
		if now, _ := k.Pinned(); now != 0 || d.regions.n != 0 {
			t.Errorf("%d bytes are pinned, %d regions counted", now, d.regions.n)
		}
	}
}
