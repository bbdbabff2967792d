//go:build linux

package shm

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestFence: two goroutines each write a word, execute a fence, and read the other's word. At least
// one must see the other's write. Without a fence, processors may read before the write is visible.
func TestFence(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector sees plain accesses to shared memory, which are the point")
	}
	f := &ucttest.Fixture{Component: component{posixName}}
	a, b := f.Pair(t)
	const far = 1024 // in another cache line
	mem := a.Expose(t, make([]byte, 4096), uct.AccessAll)
	hosts := [2]*ucttest.Host{a, b}
	peers := [2]*ucttest.Host{b, a}
	const rounds = 20000
	var seen [2][rounds]uint64
	var step atomic.Uint64
	var done sync.WaitGroup
	for side := range 2 {
		ep := hosts[side].Connect(t, peers[side])
		key := hosts[side].Key(t, mem)
		own, other := mem.Addr+uint64(side*far), mem.Addr+uint64((1-side)*far)
		done.Add(1)
		go func() {
			defer done.Done()
			buf, got := make([]byte, 8), make([]byte, 8)
			for k := range rounds {
				step.Add(1)
				for spin := 1; step.Load() < uint64(2*k+2); spin++ {
					if spin%1000 == 0 {
						runtime.Gosched()
					}
				}
				binary.LittleEndian.PutUint64(buf, uint64(k+1))
				err := ep.(uct.RMA).PutShort(buf, own, key)
				if err == nil {
					err = ep.Fence()
				}
				if err == nil {
					err = ep.(uct.RMA).GetBcopy(into(got), 8, other, key, nil)
				}
				if err != nil {
					t.Error(err)
				}
				seen[side][k] = binary.LittleEndian.Uint64(got)
			}
		}()
	}
	done.Wait()
	missed := 0
	for k := range rounds {
		if seen[0][k] <= uint64(k) && seen[1][k] <= uint64(k) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d times of %d neither side saw the other", missed, rounds)
	}
}
