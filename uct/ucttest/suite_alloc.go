package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// testNoAllocations sends, progresses and receives messages of each kind, and checks that
// nothing is allocated in steady state. It calls through the interfaces, like the layer above.
func testNoAllocations(t *testing.T, f *Fixture) {
	if race.Enabled {
		t.Skip("the race detector allocates memory")
	}
	a, b := f.Pair(t)
	ep := a.Connect(t, b)
	attr := a.Iface.Attr()
	var got int
	b.Handle(t, 1, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
	payload := make([]byte, 16)
	packer := &Packer{Data: make([]byte, 100)}
	c := NewCompletion(0)
	iov := []uct.IOV{a.IOV(t, make([]byte, max(256, attr.AM.MinZcopy)))}
	sends := map[string]struct {
		flag uct.IfaceFlags
		send func() error
	}{
		"short":     {uct.IfaceAMShort, func() error { return ep.AMShort(1, 2, payload, 0, &c.Completion) }},
		"short iov": {uct.IfaceAMShort, func() error { return ep.AMShortIOV(1, iov[:1:1], 0, &c.Completion) }},
		"bcopy": {uct.IfaceAMBcopy, func() error {
			_, err := ep.AMBcopy(1, packer, 0, &c.Completion)
			return err
		}},
		"zcopy": {uct.IfaceAMZcopy, func() error { return ep.AMZcopy(1, packer, iov, 0, &c.Completion) }},
	}
	for name, s := range sends {
		if attr.Flags&s.flag == 0 || name == "short iov" && attr.AM.MaxShort < len(iov[0].Data) {
			continue
		}
		once := func() {
			before := got
			for tries := 0; ; tries++ {
				c.Count++
				err := s.send()
				if err == ucs.InProgress {
					break
				}
				c.Count--
				if err == nil {
					break
				}
				if err != ucs.ErrNoResource || tries > 1<<20 {
					t.Fatalf("%s: %v", name, err)
				}
				a.Worker.Progress()
				b.Worker.Progress()
			}
			for tries := 0; got == before || c.Count > 0; tries++ {
				if tries > 1<<20 {
					t.Fatalf("%s: the message does not arrive", name)
				}
				a.Worker.Progress()
				b.Worker.Progress()
			}
		}
		for range 300 { // warm up: pools fill, maps and lists grow
			once()
		}
		if n := testing.AllocsPerRun(300, once); n != 0 {
			t.Errorf("%s: %v allocations per message", name, n)
		}
	}
	if n := testing.AllocsPerRun(300, func() { a.Worker.Progress() }); n != 0 {
		t.Errorf("%v allocations per idle round", n)
	}
}
