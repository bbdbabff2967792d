//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// The text of an error that reports the end of an endpoint is "ucp: endpoint NAME: what happened",
// with the cause once. It is the same in the error handler, in Endpoint.Err, in the operations that
// ended with the endpoint and in later ones.

// endTextName is the name of the endpoint.
const endTextName = "toward-the-peer"

// reset is the status when a peer has ended: a timeout if only its silence shows that.
var reset = []ucs.Status{ucs.ErrConnectionReset, ucs.ErrEndpointTimeout}

// everyFeature are the features that the operations of these tests need.
const everyFeature = oneSided | ucp.FeatureStream | ucp.FeatureAM

// endText is an endpoint whose peer ends.
type endText struct {
	*rig
	a, b     *side
	ep, back *ucp.Endpoint
	told     failure
	ops      []textOp
	kept     []*ucp.AMMessage // messages kept by the peer

	key    *ucp.Rkey // key of the peer's memory, nil if there is none
	memory uint64
}

// textOp is an operation, and its result if it ended in the call.
type textOp struct {
	what string
	req  *ucp.Request
	err  error
}

// params returns the parameters of the endpoint.
func (x *endText) params() ucp.EndpointParams {
	return ucp.EndpointParams{Name: endTextName, ErrMode: ucp.ErrModePeer, OnError: x.told.onError}
}

// openBoth opens both sides, with an active message handler on b.
func (x *endText) openBoth() {
	x.Helper()
	cp := ucp.ContextParams{Features: everyFeature}
	x.a, x.b = x.openWith(cp, ucp.WorkerParams{}), x.openWith(cp, ucp.WorkerParams{})
	x.b.handle(1, func(m *ucp.AMMessage) error { // keeps messages, so that no data is fetched
		m.Keep()
		x.kept = append(x.kept, m)
		return nil
	})
}

// access gives a access to memory of b.
func (x *endText) access() {
	x.Helper()
	m := x.b.expose(make([]byte, 1<<20), 0)
	packed, err := m.PackRkey()
	if err != nil {
		x.Fatal(err)
	}
	x.unpackKey(packed, m.Attr().Address)
}

// unpackKey unpacks a key of the peer's memory. The key stays valid when the peer is closed.
func (x *endText) unpackKey(packed []byte, addr uint64) {
	x.Helper()
	key, err := x.ep.UnpackRkey(packed)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { key.Close() })
	x.key, x.memory = key, addr
}

// start starts operations of all kinds, not all of which can complete without the peer.
func (x *endText) start() {
	x.Helper()
	begin := func(what string, req *ucp.Request, err error) {
		x.ops = append(x.ops, textOp{what, req, err})
	}
	always := func() *ucp.RequestParams { return &ucp.RequestParams{Flags: ucp.OpNoImmediate} }
	long := make([]byte, 1<<20)
	ep := x.ep
	for _, n := range []int{8, 50_000, 1 << 20} {
		req, err := ep.TagSendSync(1, long[:n], nil)
		begin(fmt.Sprintf("a synchronous send of %d bytes", n), req, err)
		req, err = ep.TagSend(1, long[:n], always())
		begin(fmt.Sprintf("a send of %d bytes", n), req, err)
		p := always()
		if x.b != nil {
			req, err = ep.AMSend(1, nil, long[:n], p)
			begin(fmt.Sprintf("an active message of %d bytes", n), req, err)
			p = always()
			p.AMFlags = ucp.AMSendRndv
			req, err = ep.AMSend(1, nil, long[:n], p)
			begin(fmt.Sprintf("an active message that offers %d bytes", n), req, err)
		}
		req, err = ep.StreamSend(long[:n], always())
		begin(fmt.Sprintf("a stream's %d bytes", n), req, err)
		if x.key == nil {
			continue
		}
		req, err = ep.Get(make([]byte, n), x.memory, x.key, always())
		begin(fmt.Sprintf("a get of %d bytes", n), req, err)
		req, err = ep.Put(long[:n], x.memory, x.key, always())
		begin(fmt.Sprintf("a put of %d bytes", n), req, err)
		p = always()
		p.ReplyBuffer = make([]byte, 8)
		req, err = ep.Atomic(ucp.AtomicAdd, make([]byte, 8), x.memory, x.key, p)
		begin("an atomic operation", req, err)
	}
	req, err := ep.Flush(always())
	begin("a flush", req, err)
}

// check checks that the handler, Err, the operations and later operations report the same text.
func (x *endText) check(want ...ucs.Status) {
	x.Helper()
	x.ends("the endpoint", func() bool { return x.ep.Err() != nil })
	x.settle()
	told := x.ep.Err()
	x.text(told, want)
	same := func(what string, err error) {
		x.Helper()
		if err == nil || err.Error() != told.Error() || !errors.Is(err, ucs.StatusOf(told)) {
			x.Errorf("%s is told %v, Err %q", what, err, told)
		}
	}
	x.eventually(func() bool { return x.told.calls > 0 }) // an orderly end is reported a bit later
	same("the handler", x.told.err)
	for _, o := range x.ops {
		if o.req != nil {
			x.ends(o.what, o.req.Done)
			o.err = o.req.Err()
			o.req.Free()
		}
		if o.err != nil { // others completed before the end
			same(o.what, o.err)
		}
	}
	ctx := context.Background()
	same("a later send", x.ep.TagSendWait(ctx, 1, nil))
	same("a later synchronous send", x.ep.TagSendSyncWait(ctx, 1, nil))
	same("a later active message", x.ep.AMSendWait(ctx, 1, nil, nil, 0))
	same("a later stream", x.ep.StreamSendWait(ctx, make([]byte, 8)))
	same("a later flush", x.ep.FlushWait(ctx))
	same("a later wait for the connection", x.ep.ConnectWait(ctx))
	if x.key != nil {
		same("a later put", x.ep.PutWait(ctx, make([]byte, 8), x.memory, x.key))
		same("a later get", x.ep.GetWait(ctx, make([]byte, 8), x.memory, x.key))
		same("a later atomic operation", x.ep.AtomicWait(ctx, ucp.AtomicAdd, make([]byte, 8), x.memory, x.key, nil))
	}
}

// endCauses are the causes that errors name for the end of a peer. A text has one of each group at
// most, once.
var endCauses = [][]string{
	{"connection reset by peer", "connection reset by remote peer", "broken pipe", "closed by the peer", "ended by the peer", "has ended",
		"peer has closed", "peer has released", "end is gone", "end is closed", "disconnected", "connection refused"},
	{"endpoint timeout", "timed out", "retries exceeded", "does not answer", "nothing acknowledged"},
	{"destination is unreachable", "no route to host", "network is unreachable"},
	{"rejected"},
	{"connection refused", "no listener", "endpoint is not connected"},
	{"input/output error"},
	{"ucp: "},
	{"rdmacm: "},
	{"connecting", "connect "},
}

// text checks the text of an error.
func (x *endText) text(err error, want []ucs.Status) {
	x.Helper()
	text := err.Error()
	x.Log(text)
	if !strings.HasPrefix(text, "ucp: endpoint "+endTextName+": ") || strings.Count(text, endTextName) != 1 {
		x.Errorf("%q does not name the endpoint, once", text)
	}
	for _, group := range endCauses {
		n := 0
		for _, cause := range group {
			n += strings.Count(text, cause)
		}
		if n > 1 {
			x.Errorf("%q says the same %d times: %q", text, n, group)
		}
	}
	if !isOneOf(err, want...) {
		x.Errorf("%q matches none of %v", text, want)
	}
}

// loses drops every packet of the fabric until the end of the test.
func (r *rig) loses() {
	net := fake.Fabric()
	net.SetHook(verbstest.When(verbstest.Any, verbstest.Fate{Drop: true}))
	r.Cleanup(func() { net.SetHook(nil) })
}

// TestEndTexts checks the texts for all ways in which a peer known by its worker address can end.
func TestEndTexts(t *testing.T) {
	silence := []string{"rc", "ud"}
	for _, c := range []struct {
		name string
		over []string // transports, nil for all
		end  func(x *endText)
		want []ucs.Status
	}{
		{"the worker is closed", nil, func(x *endText) { x.b.close() }, reset},
		{"closed by force", nil, func(x *endText) { x.inTheCall(x.back.CloseAsync(force)) }, reset},
		{"closed, and the worker is closed", nil, func(x *endText) {
			if _, err := x.back.CloseAsync(nil); err != nil {
				x.Fatal(err)
			}
			x.settle()
			x.b.close()
		}, reset},
		{"silence", silence, func(x *endText) { x.loses() }, reset},
		{"a lane fails", []string{"sim", "simlanes", "simpairs"}, func(x *endText) {
			x.sim.inject(x, fault.From(1, fault.Effect{Drop: ucs.ErrConnectionReset}))
			req, err := x.ep.TagSend(1, make([]byte, 8), nil)
			x.ops = append(x.ops, textOp{"what the lane fails by", req, err})
		}, reset},
	} {
		for _, name := range []string{"tcp", "tls", "posix", "sysv", "posix and cma", "sim", "simlanes", "simpairs", "rc", "ud", "rc,tcp"} {
			if c.over != nil && !slices.Contains(c.over, name) {
				continue
			}
			for _, ops := range []string{"idle", "with operations"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, c.name, ops), func(t *testing.T) {
					x := &endText{rig: newRig(t, byName(t, name).vanishing())}
					x.openBoth()
					p := x.params()
					x.ep = x.a.connectWith(x.b, p)
					x.warm(x.ep, x.b)
					x.back = x.b.connectWith(x.a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
					x.warm(x.back, x.a)
					x.access()
					if ops != "idle" {
						x.start()
					}
					c.end(x)
					x.check(c.want...)
				})
			}
		}
	}
}

// TestEndTextsUnconnected checks the texts for an endpoint that was never connected.
func TestEndTextsUnconnected(t *testing.T) {
	for _, name := range []string{"tcp", "tls", "posix", "sysv", "sim", "simpairs", "rc", "ud"} {
		t.Run(name, func(t *testing.T) {
			x := &endText{rig: newRig(t, byName(t, name).vanishing())}
			x.openBoth()
			x.ep = x.a.connectWith(x.b, x.params())
			x.b.close()
			x.start()
			x.check(ucs.ErrConnectionReset, ucs.ErrEndpointTimeout, ucs.ErrUnreachable)
		})
	}
}

// TestEndTextsUnequal checks the texts if the peer's endpoint has another error mode.
func TestEndTextsUnequal(t *testing.T) {
	for _, name := range []string{"tcp", "posix", "sim", "simpairs", "rc", "ud"} {
		t.Run(name, func(t *testing.T) {
			x := &endText{rig: newRig(t, byName(t, name).vanishing())}
			x.openBoth()
			x.ep = x.a.connectWith(x.b, x.params())
			back := x.b.connectWith(x.a, ucp.EndpointParams{})
			x.started(back.TagSendSync(1, nil, nil))
			x.check(ucs.ErrUnsupported)
		})
	}
}

// TestEndTextsStranger checks the texts if the peer's certificate is not accepted.
func TestEndTextsStranger(t *testing.T) {
	x := &endText{rig: newRig(t, byName(t, "tls"))}
	x.log.Allow("")
	cp := ucp.ContextParams{Features: everyFeature}
	x.a = x.openWith(cp, ucp.WorkerParams{})
	x.tls = certtest.New().Mutual("peer")
	x.b = x.openWith(cp, ucp.WorkerParams{})
	x.ep = x.a.connectWith(x.b, x.params())
	x.start()
	x.check(ucs.ErrRejected)
}

// dialedTexts are the transports for endpoints by socket address.
func dialedTexts(t *testing.T) []transport {
	atHand.there.Store(true)
	t.Cleanup(func() { atHand.there.Store(false) })
	return append(slices.Clone(connTransports[:4]), dialed("rc", "rc_v").pairwise())
}

// TestEndTextsServer checks the texts for all ways in which a server known by its socket address
// can end.
func TestEndTextsServer(t *testing.T) {
	for _, tr := range dialedTexts(t) {
		for _, c := range []struct {
			name string
			end  func(x *endText)
		}{
			{"disconnects", func(x *endText) {
				req, err := x.back.CloseAsync(nil)
				x.settle()
				for _, m := range x.kept { // a close waits until they are released
					m.Release()
				}
				x.must(req, err)
			}},
			{"closes by force", func(x *endText) { x.inTheCall(x.back.CloseAsync(force)) }},
			{"its worker is closed", func(x *endText) { x.b.close() }},
		} {
			for _, ops := range []string{"idle", "with operations"} {
				t.Run(fmt.Sprintf("%s/%s/%s", tr.name, c.name, ops), func(t *testing.T) {
					x := &endText{rig: newConnRig(t, tr.vanishing())}
					x.openBoth()
					x.ep, x.back = x.joined(x.a, x.b.hall(false), x.params())
					x.access()
					if ops != "idle" {
						x.start()
					}
					c.end(x)
					x.check(reset...)
				})
			}
		}
	}
}

// TestEndTextsRefused checks the texts if a connection by socket address cannot be established.
func TestEndTextsRefused(t *testing.T) {
	for _, tr := range dialedTexts(t) {
		for _, c := range []struct {
			name string
			end  func(x *endText, h *listeningSide)
			want []ucs.Status
		}{
			{"nobody listens", func(x *endText, h *listeningSide) {
				h.Listener.Close()
				x.ep = x.a.dial(h, x.params())
				x.start()
			}, []ucs.Status{ucs.ErrNotConnected}},
			{"rejected", func(x *endText, h *listeningSide) {
				x.ep = x.a.dial(h, x.params())
				x.start()
				x.until("the request", func() bool { return len(h.requests) > 0 })
				h.requests[0].Reject()
			}, []ucs.Status{ucs.ErrRejected}},
			{"the worker is closed", func(x *endText, h *listeningSide) {
				x.ep = x.a.dial(h, x.params())
				x.start()
				x.until("the request", func() bool { return len(h.requests) > 0 })
				x.b.close()
			}, lost},
		} {
			t.Run(tr.name+"/"+c.name, func(t *testing.T) {
				x := &endText{rig: newConnRig(t, tr.vanishing())}
				x.openBoth()
				c.end(x, x.b.hall(true))
				x.check(c.want...)
			})
		}
	}
}

// TestEndTextsDeath checks the texts if the peer's process is killed.
func TestEndTextsDeath(t *testing.T) {
	needtest.Goroutines(t)
	for _, tr := range mortal {
		for _, ops := range []string{"idle", "with operations"} {
			t.Run(tr.name+"/"+ops, func(t *testing.T) {
				x := &endText{rig: newRig(t, tr.with(soon))}
				x.log.Allow("the peer has probably died") // it may die while filling an element
				d := x.doomed()
				x.a = x.openWith(ucp.ContextParams{Features: everyFeature}, ucp.WorkerParams{})
				p := x.params()
				p.Address = d.address
				var err error
				if x.ep, err = x.a.NewEndpoint(p); err != nil {
					t.Fatal(err)
				}
				x.unpackKey(d.key, d.memory)
				d.do("connect %d %x", p.ErrMode, []byte(x.a.address()))
				d.do("recv %d 8", warmTag)
				x.must(x.ep.TagSendSync(warmTag, nil, nil))
				if ops != "idle" {
					x.start()
				}
				d.kill()
				x.check(reset...)
			})
		}
	}
}
