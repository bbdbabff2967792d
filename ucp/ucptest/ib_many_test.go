//go:build linux

package ucptest

import (
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// What workers over RDMA devices use and release.

// TestManyEndpoints checks that 500 endpoints, created, used and closed over rc, ud and both, leave
// nothing in the device: queue pairs, regions, address handles, mappings.
func TestManyEndpoints(t *testing.T) {
	needtest.Goroutines(t)
	const all, atOnce = 500, 50
	for _, tls := range []string{"rc_v", "ud_v", "ib"} {
		t.Run(tls, func(t *testing.T) {
			dev := frailNet.renew(t, "frail0")["frail0"]
			tr := onFabric("frail", tls).using("frail0:1")
			r := newRig(t, tr)
			a, b := r.pair()
			mode := ucp.EndpointParams{ErrMode: ucp.ErrModePeer}
			// The first round allocates what stays, such as message buffers and free lists.
			round := func(n int, seed uint64) {
				eps := make([][2]*ucp.Endpoint, n)
				for k := range eps {
					eps[k] = [2]*ucp.Endpoint{a.connectWith(b, mode), b.connectWith(a, mode)}
				}
				for k := range eps {
					for _, size := range []int{8, 3000, 100_000} {
						buf := make([]byte, size)
						recv := r.started(b.TagRecv(ucp.Tag(k), ucp.FullMask, buf, nil))
						r.must(eps[k][0].TagSend(ucp.Tag(k), ucttest.Pattern(size, seed+uint64(k)), nil))
						r.must(recv, nil)
						ucttest.SameBytes(t, "message", buf, ucttest.Pattern(size, seed+uint64(k)))
					}
				}
				for k := range eps {
					r.must(eps[k][0].CloseAsync(tr.closings()[k%2]))
					r.finish(eps[k][1].CloseAsync(force))
				}
				r.endpoints(0, a, b)
			}
			count := func() (objects, mapped int, pinned int64) {
				r.settle() // for completions that the devices still deliver
				pinned, _ = dev.Pinned()
				return dev.Objects(), dev.Mapped(), pinned
			}
			round(atOnce, 0)
			objects, mapped, pinned := count()
			for n := 0; n < all; n += atOnce {
				round(atOnce, uint64(n))
			}
			o, m, p := count()
			t.Logf("%d objects, %d mapped and %d bytes pinned after %d endpoints; %d, %d and %d before",
				o, m, p, 2*all, objects, mapped, pinned)
			if o > objects+25 || m != mapped { // message buffers may have grown
				t.Errorf("%d objects more, and %d mapped", o-objects, m-mapped)
			}
			r.sides = nil
			a.close()
			b.close()
			if p, _ := dev.Pinned(); dev.Objects() != 0 || dev.Mapped() != 0 || p != 0 {
				t.Errorf("%d objects, %d mapped and %d bytes pinned when all is closed", dev.Objects(), dev.Mapped(), p)
			}
		})
	}
}

// TestCollectedWhileRegistered runs garbage collections that return pages, as often as possible,
// while the device reads and writes memory that only requests refer to.
func TestCollectedWhileRegistered(t *testing.T) {
	needtest.Goroutines(t)
	const messages = 60
	for _, scheme := range []string{"get_zcopy", "put_zcopy", "am"} {
		for _, tls := range []string{"rc_v", "ud_v"} {
			t.Run(scheme+" over "+tls, func(t *testing.T) {
				r := newRig(t, onFabric("rc", tls).with(setting{"RNDV_SCHEME", scheme}, setting{"RNDV_THRESH", "16k"}))
				a, b := r.pair()
				ep := a.connect(b)
				r.warm(ep, b)
				r.collected(b, ep, messages)
				r.clean(a, b)
			})
		}
	}
}

// collected sends messages to b from and to memory that only requests refer to, while garbage
// collections return as many pages as possible.
func (r *rig) collected(b *side, ep *ucp.Endpoint, messages int) {
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			default:
				debug.FreeOSMemory()
			}
		}
	}()
	defer func() {
		close(stop)
		<-over
	}()
	var litter [][]byte
	for k := range messages {
		n := 20_000 + 37_003*(k%16)
		got := make(chan []byte, 1)
		func() { // the caller drops its references
			buf := make([]byte, n)
			recv := r.started(b.TagRecv(ucp.Tag(k), ucp.FullMask, buf, &ucp.RequestParams{
				OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) { got <- buf },
			}))
			send, err := ep.TagSend(ucp.Tag(k), ucttest.Pattern(n, uint64(k)), nil)
			litter = append(litter[max(0, len(litter)-8):], make([]byte, n))
			runtime.Gosched()
			r.must(send, err)
			r.must(recv, nil)
		}()
		ucttest.SameBytes(r, "message", <-got, ucttest.Pattern(n, uint64(k)))
	}
	runtime.KeepAlive(litter)
}

// TestAliases checks that the names of transports and groups select the same transports as in C
// UCX, and which lanes an endpoint gets.
func TestAliases(t *testing.T) {
	for _, c := range []struct{ tls, am, wireup, keepalive string }{
		{"rc", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"rc_v", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"rc_verbs", "", "", ""}, // without a transport for wireup
		{"rc_verbs,ud_verbs:aux", "rc_verbs", "ud_verbs", "ud_verbs"},
		{`\rc_verbs,tcp`, "rc_verbs", "tcp", "tcp"},
		{"ud", "ud_verbs", "ud_verbs", "ud_verbs"},
		{"ud_v", "ud_verbs", "ud_verbs", "ud_verbs"},
		{"ud_verbs", "ud_verbs", "ud_verbs", "ud_verbs"},
		{"ib", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"rc,ud", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"all", "posix", "rc_verbs", "posix"}, // posix wakes no peer, so rc has wireup, over ud
		{"rc,tcp", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"ib,tcp", "rc_verbs", "ud_verbs", "ud_verbs"},
		{"^rc,posix,sysv,cma,self", "ud_verbs", "ud_verbs", "ud_verbs"},
		{"^ib,posix,sysv,cma,self", "tcp", "tcp", "tcp"},
		{"^ud,posix,sysv,cma,self", "rc_verbs", "ud_verbs", "ud_verbs"},
	} {
		t.Run(c.tls, func(t *testing.T) {
			frailNet.renew(t, "frail0")
			tr := onFabric("frail", c.tls).using("frail0:1,lo")
			r := newRig(t, tr)
			a, b := r.pair()
			if c.am == "" {
				if ep, err := a.NewEndpoint(ucp.EndpointParams{Address: b.address()}); !errors.Is(err, ucs.ErrUnreachable) {
					t.Errorf("%v, %v", ep, err)
				}
				return
			}
			ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
			r.warm(ep, b)
			purposes := make(map[string]string)
			for k, l := range ep.Explain().Lanes {
				name := ep.Attr().Transports[k].Name
				for _, p := range strings.Fields(l) {
					purposes[p] = name
				}
			}
			if got := [3]string{purposes["am"], purposes["wireup"], purposes["keepalive"]}; got != [3]string{c.am, c.wireup, c.keepalive} {
				t.Errorf("messages, wireup and keepalive over %v, want %v", got, c)
			}
		})
	}
}

// TestLittleToPin checks that a worker with rc and ud stays within the memory limit of an
// unprivileged user. If the limit is too small, the next transport is used and the reason is
// reported.
func TestLittleToPin(t *testing.T) {
	needtest.Goroutines(t)
	open := func(t *testing.T, limit int64) (r *rig, most func() int64, transports []string) {
		dev := frailNet.renew(t, "frail0")["frail0"]
		dev.SetMemLock(limit)
		r = newRig(t, onFabric("frail", "ib,tcp").using("frail0:1,lo"))
		if limit < 1<<20 {
			r.log.Allow("memory")
		}
		a, b := r.pair()
		there, back := a.connect(b), b.connect(a)
		r.exchange(there, b, back, a)
		for _, n := range []int{100, 8000, 60_000, 1 << 20} {
			var reqs []*ucp.Request
			bufs := make([][]byte, 16)
			for k := range bufs {
				bufs[k] = make([]byte, n)
				reqs = append(reqs, r.started(b.TagRecv(ucp.Tag(k), ucp.FullMask, bufs[k], nil)))
				req, err := there.TagSend(ucp.Tag(k), ucttest.Pattern(n, uint64(k)), nil)
				if err != nil {
					t.Fatal(err)
				}
				if req != nil {
					reqs = append(reqs, req)
				}
			}
			for _, req := range reqs {
				r.must(req, nil)
			}
			for k := range bufs {
				ucttest.SameBytes(t, "message", bufs[k], ucttest.Pattern(n, uint64(k)))
			}
		}
		for _, l := range there.Attr().Transports {
			transports = append(transports, l.Name)
		}
		return r, func() int64 { _, most := dev.Pinned(); return most }, transports
	}
	t.Run("enough", func(t *testing.T) {
		const each = 8 << 20 // there are two workers
		_, most, transports := open(t, 2*each)
		t.Logf("%d KiB pinned by two workers with all that is under way, over %v", most()>>10, transports)
		if !slices.Contains(transports, "rc_verbs") {
			t.Errorf("lanes over %v", transports)
		}
	})
	t.Run("for nothing", func(t *testing.T) {
		r, _, transports := open(t, 64<<10)
		if !slices.Equal(slices.Compact(transports), []string{"tcp"}) {
			t.Errorf("lanes over %v", transports)
		}
		said := r.sides[0].connect(r.sides[1]).Explain().String()
		var why []string
		for line := range strings.Lines(said) {
			if strings.Contains(line, "not used: rc_verbs/frail0") || strings.Contains(line, "not used: ud_verbs/frail0") {
				why = append(why, strings.TrimSpace(line))
			}
		}
		t.Log(strings.Join(why, "\n"))
		remedy := func(line string) bool { return strings.Contains(line, "raise the limit (ulimit -l") }
		if len(why) != 2 || !remedy(why[0]) || !remedy(why[1]) {
			t.Errorf("why is not told:\n%s", said)
		}
	})
}
