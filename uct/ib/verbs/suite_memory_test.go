//go:build linux

package verbs_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// churn allocates garbage of all sizes until it is stopped, while the garbage collector runs and
// the runtime returns pages to the system.
func churn() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var keep [64][]byte
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			b := make([]byte, 64<<(i%13)) // up to 256 KiB
			fill(b[:64], byte(i))
			keep[i*7%len(keep)] = b
			if i%200 == 0 {
				clear(keep[:])
				scavenge()
			} else if i%50 == 0 {
				runtime.GC()
			}
			runtime.Gosched()
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// testCollector lets the runtime collect garbage and return pages while a peer writes to and reads
// from heap memory. Both ends must read what either has written.
func testCollector(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	defer churn()()
	var regions []*verbs.MR
	region := func(n int) *verbs.MR {
		// The region holds the only reference to the memory.
		return must(b.pd.RegMR(make([]byte, n), fullAccess))(t)
	}
	// Small slices share pages and spans with garbage; large ones have their own.
	for i := range 64 {
		regions = append(regions, region([]int{1, 8, 24, 100, 1000, 3000, 5000, 32000}[i%8]+i))
	}
	checks := 0
	for round := range r.often(60, 20, 400) {
		for i, m := range regions {
			n, seed := m.Len(), byte(round*3+i)
			wr := verbs.SendWR{ID: 1, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, n), RemoteAddr: m.Addr(), RKey: m.RKey()}
			if (round+i)%2 == 0 { // the peer writes, this end checks
				fill(a.buf[:n], seed)
				a.send(t, wr)
				a.done(t, 1, verbs.WCRDMAWrite)
			} else { // this end writes, the peer checks
				fill(m.Bytes(), seed)
				fill(a.buf[:n], seed)
			}
			if !bytes.Equal(m.Bytes(), a.buf[:n]) {
				t.Fatalf("round %d, region %d: wrong bytes here", round, i)
			}
			got := a.buf[bufSize/2 : bufSize/2+min(n, bufSize/2)]
			clear(got)
			wr.Opcode, wr.SGList = verbs.WRRDMARead, a.at(bufSize/2, len(got))
			a.send(t, wr)
			a.done(t, 1, verbs.WCRDMARead)
			if !bytes.Equal(got, m.Bytes()[:len(got)]) {
				t.Fatalf("round %d, region %d: wrong bytes at the peer", round, i)
			}
			checks += 2
		}
		// Replace a few regions, so that their pages are reused.
		for k := range 4 {
			i := (round*4 + k) % len(regions)
			n := regions[i].Len()
			check(t, regions[i].Close())
			regions[i] = region(n)
		}
	}
	t.Logf("%d checks", checks)
}
