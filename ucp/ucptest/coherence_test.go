//go:build linux

package ucptest

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ucx-go/ucx/ucp"
)

// TestCoherentAtomics checks that no update of a word is lost if three parties change it at the
// same time: a peer on the machine, whose CPU changes it directly; a peer across the network, whose
// messages the worker that owns the memory carries out; and the program that owns the memory. The
// adjacent word, which only that program changes, is not affected by operations of 32 bits.
func TestCoherentAtomics(t *testing.T) {
	const direct, messages = 50_000, 500 // direct operations take no time
	for _, name := range []string{"posix", "sysv"} {
		for _, size := range []int{4, 8} {
			t.Run(sizeText(name, size), func(t *testing.T) {
				r := newRig(t, transport{name: name})
				needCalls(t, name)
				open := func(tls string) *side {
					r.settings = []setting{{"TLS", tls}, {"NET_DEVICES", "lo"}}
					return r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
				}
				near, far, home := open(name), open("tcp"), open(name+",tcp")
				m := home.allocate(64)
				mem := m.Bytes()
				clear(mem)

				// Keys that lead over this transport and no other.
				const off = 8
				to := func(s *side, mapped bool) (*ucp.Endpoint, window) {
					ep := s.connect(home)
					w := r.unpack(ep, m)
					if _, err := w.key.Ptr(w.addr, 8); (err == nil) != mapped {
						t.Fatalf("mapped: %v; %v", err == nil, w.key)
					}
					r.must(ep.Flush(nil))
					return ep, w
				}
				nearEP, nearKey := to(near, true)
				farEP, farKey := to(far, false)
				one := word64(1)
				if size == 4 {
					one = word32(1)
				}

				// A goroutine for each party. Direct operations need no progress on either side.
				seen := make(chan uint64, direct+messages)
				nearDone, ownDone := make(chan struct{}), make(chan struct{})
				stop := new(atomic.Bool)
				r.sides = []*side{far, home}
				t.Cleanup(func() { // runs before the workers and the memory are closed
					stop.Store(true)
					<-nearDone
					<-ownDone
				})
				go func() {
					defer close(nearDone)
					for range direct {
						reply := make([]byte, size)
						if req, err := nearEP.Atomic(ucp.AtomicAdd, one, nearKey.addr+off, nearKey.key, &ucp.RequestParams{ReplyBuffer: reply}); req != nil || err != nil {
							t.Errorf("a direct addition: %v, %v", req, err)
							return
						}
						seen <- number(reply)
						if req, err := nearEP.Atomic(ucp.AtomicAdd, one, nearKey.addr+off, nearKey.key, nil); req != nil || err != nil {
							t.Errorf("a direct addition without result: %v, %v", req, err)
							return
						}
					}
				}()
				own, beside := uint64(0), uint32(0)
				go func() {
					defer close(ownDone)
					for own < 1<<28 && !stop.Load() { // so that no word of 32 bits overflows
						if size == 8 {
							atomic.AddUint64((*uint64)(unsafe.Pointer(&mem[off])), 1)
						} else {
							atomic.AddUint32((*uint32)(unsafe.Pointer(&mem[off])), 1)
							atomic.AddUint32((*uint32)(unsafe.Pointer(&mem[off+4])), 1)
							beside++
						}
						own++
					}
				}()
				for range messages {
					reply := make([]byte, size)
					r.must(farEP.Atomic(ucp.AtomicAdd, one, farKey.addr+off, farKey.key, &ucp.RequestParams{ReplyBuffer: reply}))
					seen <- number(reply)
					r.must(farEP.Atomic(ucp.AtomicAdd, one, farKey.addr+off, farKey.key, nil))
				}
				r.must(farEP.Flush(nil))
				<-nearDone
				stop.Store(true)
				<-ownDone
				r.sides = []*side{near, far, home}
				close(seen)

				want := own + 2*(direct+messages)
				if size == 4 {
					want = uint64(uint32(want))
					if got := binary.NativeEndian.Uint32(mem[off+4:]); got != beside {
						t.Errorf("the word beside is %d, want %d", got, beside)
					}
				}
				if got := number(mem[off : off+size]); got != want {
					t.Errorf("the sum is %d, want %d", got, want)
				}
				values := make(map[uint64]bool)
				for v := range seen {
					if values[v] {
						t.Errorf("two additions saw %d", v)
					}
					values[v] = true
				}
			})
		}
	}
}

// number returns the word in b.
func number(b []byte) uint64 {
	if len(b) == 4 {
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}
