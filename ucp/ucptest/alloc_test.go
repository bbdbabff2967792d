//go:build linux

package ucptest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// skipUnderRace skips tests of allocations in race builds, in which the race detector allocates and
// requests are not reused.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if race.Enabled {
		t.Skip("allocations are not counted under the race detector")
	}
}

// spin is must without anything that allocates.
func (r *rig) spin(req *ucp.Request, err error) {
	if err != nil {
		r.Fatal(err)
	}
	for !req.Done() {
		r.progress()
	}
	req.Free()
}

// allocatesNothing runs a function until the free lists are full, and then counts its allocations.
func (r *rig) allocatesNothing(what string, run func()) {
	r.Helper()
	if r.profiled { // takes longer to fill the lists
		for range 20 {
			run()
		}
		if got := r.allocated(20, run); len(got) > 0 {
			r.Errorf("%s: allocations by\n%s", what, strings.Join(got, "\n"))
		}
		return
	}
	for range 50 {
		run()
	}
	if got := testing.AllocsPerRun(50, run); got != 0 {
		r.Errorf("%s: %v allocations", what, got)
	}
}

// frugal reports whether allocations are counted over the transport.
func (tr transport) frugal() bool { return tr.profiled || !tr.busy && !tr.few }

// allocated returns the functions that allocate about as often as run is called, n times. The
// device without a kernel is not counted: it allocates for requests and registrations.
func (r *rig) allocated(n int, run func()) (list []string) {
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	before := allocations()
	for range n {
		run()
	}
	after := allocations()
	runtime.MemProfileRate = rate
	counts := make(map[string]int64)
	for stack, count := range after {
		if more := count - before[stack]; more > 0 {
			counts[calls(stack)] += more
		}
	}
	delete(counts, "")
	for by, count := range counts {
		if count >= int64(n)/2 {
			list = append(list, fmt.Sprintf("%d by %s", count, by))
		}
	}
	return list
}

// stack is the call stack of an allocation: return addresses, the innermost first, then zeros.
type stack [32]uintptr

// allocations returns the number of allocations so far, by stack.
func allocations() map[stack]int64 {
	runtime.GC() // a profile has the state of the collection before the last
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1000)
	n, ok := runtime.MemProfile(records, true)
	for !ok {
		records = make([]runtime.MemProfileRecord, 2*n)
		n, ok = runtime.MemProfile(records, true)
	}
	counts := make(map[stack]int64, n)
	for k := range records[:n] {
		counts[records[k].Stack0] += records[k].AllocObjects
	}
	return counts
}

// calls returns the functions of a stack, or "" if the allocation is the device's or the profile's.
func calls(s stack) string {
	var by []string
	depth := slices.Index(s[:], 0)
	if depth < 0 {
		depth = len(s)
	}
	for frames, more := runtime.CallersFrames(s[:depth]), true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if strings.Contains(f.Function, "/verbstest.") || strings.HasSuffix(f.Function, ".allocations") {
			return ""
		}
		by = append(by, f.Function)
	}
	return strings.Join(by, " < ")
}

// TestNoAllocations checks that in steady state a message allocates nothing on either side,
// whatever its protocol.
func TestNoAllocations(t *testing.T) {
	skipUnderRace(t)
	for _, tr := range transports {
		if !tr.frugal() {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b := r.pair()
			ep := a.connect(b)
			r.warm(ep, b)
			params := &ucp.RequestParams{OnSend: func(*ucp.Request, error, any) {}}
			var info ucp.TagRecvInfo
			rparams := &ucp.RequestParams{
				TagInfo: &info, OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {},
			}
			for _, n := range []int{0, 8, 2000, 8192, 50_000, 100_000, 1 << 20} {
				src, buf := make([]byte, n), make([]byte, n)
				// The caller makes the list, once.
				half := [][]byte{src[:n/2], src[n/2:]}
				iov := &ucp.RequestParams{Buffer: ucp.IOV(half...)}
				finish := r.spin
				for _, c := range []struct {
					name string
					run  func()
				}{
					{"expected", func() {
						recv, rerr := b.TagRecv(1, ucp.FullMask, buf, rparams)
						send, serr := ep.TagSend(1, src, nil)
						finish(send, serr)
						finish(recv, rerr)
					}},
					{"unexpected", func() {
						send, serr := ep.TagSend(1, src, params)
						for {
							if _, ok := b.TagPeek(1, ucp.FullMask); ok {
								break
							}
							r.progress()
						}
						recv, rerr := b.TagRecv(1, 0, buf, nil)
						finish(recv, rerr)
						finish(send, serr)
					}},
					{"synchronous", func() {
						recv, rerr := b.TagRecv(1, 0, buf, nil)
						send, serr := ep.TagSendSync(1, src, params)
						finish(recv, rerr)
						finish(send, serr)
					}},
					{"scattered", func() {
						recv, rerr := b.TagRecv(1, ucp.FullMask, buf, nil)
						send, serr := ep.TagSend(1, nil, iov)
						finish(recv, rerr)
						finish(send, serr)
					}},
				} {
					r.allocatesNothing(sizeText(c.name, n), c.run)
				}
			}
			if got := testing.AllocsPerRun(100, func() { r.progress() }); got != 0 {
				t.Errorf("idle progress: %v allocations", got)
			}
		})
	}
}

// TestNoStreamAllocations checks that in steady state sending and receiving over a stream allocates
// nothing, in any way.
func TestNoStreamAllocations(t *testing.T) {
	skipUnderRace(t)
	for _, tr := range transports {
		if !tr.frugal() {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			s := newRig(t, tr).streams()
			s.send(1)
			s.recv(make([]byte, 1), nil)
			told := 0
			all := &ucp.RequestParams{StreamFlags: ucp.StreamRecvWaitAll, OnStreamRecv: func(*ucp.Request, error, int, any) { told++ }}
			list := make([]ucp.StreamReady, 4)
			for _, n := range []int{1, 8, 2000, 8192, 100_000} {
				src, buf := make([]byte, n), make([]byte, n)
				for _, c := range []struct {
					name string
					run  func()
				}{
					{"expected", func() {
						_, recv, rerr := s.ba.StreamRecv(buf, all)
						send, serr := s.ab.StreamSend(src, nil)
						s.spin(send, serr)
						s.spin(recv, rerr)
					}},
					{"unexpected", func() {
						send, serr := s.ab.StreamSend(src, nil)
						for got := 0; got < n; {
							if k, err := s.b.StreamPoll(list); k == 0 || err != nil {
								s.progress()
								continue
							}
							k, recv, err := s.ba.StreamRecv(buf, nil)
							if k == 0 || recv != nil || err != nil {
								t.Fatal(k, recv, err)
							}
							got += k
						}
						s.spin(send, serr)
					}},
					{"in library memory", func() {
						send, serr := s.ab.StreamSend(src, nil)
						for got := 0; got < n; {
							d, err := s.ba.StreamRecvData()
							if err != nil {
								t.Fatal(err)
							}
							if d.Bytes() == nil {
								s.progress()
							}
							got += len(d.Bytes())
							d.Release()
						}
						s.spin(send, serr)
					}},
				} {
					s.allocatesNothing(sizeText(c.name, n), c.run)
				}
			}
			if told == 0 {
				t.Error("no callback has run")
			}
		})
	}
}

// TestEndpointMemory checks that an idle connected endpoint takes at most 2 KiB on each side.
func TestEndpointMemory(t *testing.T) {
	skipUnderRace(t)
	// So many that memory that the workers keep for all endpoints does not matter.
	const pairs, most = 500, 2 << 10
	for _, name := range []string{"self", "tcp", "posix"} {
		t.Run(name, func(t *testing.T) {
			// Both ends are here, and a quarter of the descriptors is not for peers.
			if name == "tcp" && ucttest.Files() < 6*pairs {
				t.Skipf("%d connections need more descriptors than RLIMIT_NOFILE allows", 2*pairs)
			}
			r := newRig(t, byName(t, name))
			a, b := r.pair()
			r.warm(a.connect(b), b)
			var before, after runtime.MemStats
			heap := func(m *runtime.MemStats) {
				runtime.GC()
				runtime.GC() // frees what the first collection left to finalizers
				runtime.ReadMemStats(m)
			}
			heap(&before)
			var eps [2 * pairs]*ucp.Endpoint
			for i := range pairs {
				eps[i] = a.connect(b)
				if b != a {
					eps[pairs+i] = b.connect(a)
				}
			}
			for _, ep := range eps[:pairs] {
				r.warm(ep, b)
			}
			for _, ep := range eps[pairs:] {
				if ep != nil {
					r.warm(ep, a)
				}
			}
			r.settle()
			heap(&after)
			ends := pairs
			if b != a {
				ends = 2 * pairs
			}
			per := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(ends)
			t.Logf("%d bytes per end", per)
			if per > most {
				t.Errorf("%d bytes per connected endpoint, at most %d are allowed", per, most)
			}
			runtime.KeepAlive(eps)
		})
	}
}
