package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// TestBarriers hands a value from one goroutine to another and back, with all
// barriers on the way. That they are the right instructions is not to be seen on a
// machine without a device; that they keep values and registers is.
func TestBarriers(t *testing.T) {
	const rounds = 1000
	var data [2]uint64
	var turn atomic.Uint32
	play := func(me uint32) (ok bool) {
		ok = true
		for i := range uint64(rounds) {
			for n := 1; turn.Load()&1 != me; n++ {
				if Pause(); n%100 == 0 {
					runtime.Gosched() // there may be one processor
				}
			}
			FromDevice()
			if data[0] != 2*i+uint64(me) || data[1] != ^data[0] && data[0] != 0 {
				ok = false
			}
			data[0]++
			data[1] = ^data[0]
			ToDevice()
			FlushWrites()
			turn.Add(1)
		}
		return ok
	}
	other := make(chan bool)
	go func() { other <- play(1) }()
	ok := play(0)
	if !<-other || !ok {
		t.Error("a value changed on its way")
	}
}
