package gid

import (
	"runtime"
	"sync"
	"testing"
)

// deep grows the stack, so that the stack moves.
func deep(n int) byte {
	var b [1 << 10]byte
	if n > 0 {
		b[n] = deep(n - 1)
	}
	return b[n]
}

// TestSelf: the ID of a goroutine never changes, and no two live goroutines have the same ID.
func TestSelf(t *testing.T) {
	const n = 100
	ids := make([]ID, n)
	var begun, over sync.WaitGroup
	end := make(chan struct{})
	for i := range n {
		begun.Add(1)
		over.Add(1)
		go func() {
			defer over.Done()
			ids[i] = Self()
			begun.Done()
			for range 10 {
				runtime.Gosched()
				deep(200)
				if got := Self(); got != ids[i] {
					t.Errorf("%#x is %#x later", ids[i], got)
				}
			}
			<-end // all goroutines live until here
		}()
	}
	begun.Wait()
	runtime.GC() // stacks shrink
	close(end)
	over.Wait()
	seen := map[ID]bool{0: true, Self(): true}
	for _, id := range ids {
		if seen[id] {
			t.Errorf("%#x twice, or 0", id)
		}
		seen[id] = true
	}
}

func BenchmarkSelf(b *testing.B) {
	for b.Loop() {
		Self()
	}
}
