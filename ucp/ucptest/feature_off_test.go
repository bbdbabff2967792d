//go:build linux

package ucptest

import (
	"context"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestFeatureOff checks that without its feature every operation of a family returns "invalid
// parameter" and has no effect, and that the other families work. Every operation belongs to a
// family.
func TestFeatureOff(t *testing.T) {
	const atomics = ucp.FeatureAMO32 | ucp.FeatureAMO64
	all := []ucp.Features{ucp.FeatureTag, ucp.FeatureRMA, ucp.FeatureAMO32, ucp.FeatureAMO64, ucp.FeatureWakeup, ucp.FeatureStream, ucp.FeatureAM}
	sets := []ucp.Features{0, oneSided, oneSided | ucp.FeatureAM, ucp.FeatureRMA | atomics}
	for _, f := range all {
		sets = append(sets, f, oneSided&^f)
	}
	for _, set := range sets {
		t.Run(set.String(), func(t *testing.T) {
			r := newRig(t, byName(t, "self"))
			r.log.Allow("context without features")
			s := r.openWith(ucp.ContextParams{Features: set}, ucp.WorkerParams{})
			ep := s.connect(s)
			m := s.expose(make([]byte, 64), 0)
			packed, err := m.PackRkey()
			if err != nil {
				t.Fatal(err)
			}
			addr := m.Attr().Address
			// Without a family that uses keys no key can be unpacked.
			key, err := ep.UnpackRkey(packed)
			if want := set&(ucp.FeatureRMA|atomics) != 0; (err == nil) != want || err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
				t.Fatalf("unpacking a key: %v", err)
			}
			if key != nil {
				r.keys = append(r.keys, key)
			}
			run := func(req *ucp.Request, err error) error {
				if err == nil {
					err = r.finish(req, nil)
				}
				return err
			}
			reply := func(n int) *ucp.RequestParams { return &ucp.RequestParams{ReplyBuffer: make([]byte, n)} }
			buf := make([]byte, 8)
			for _, c := range []struct {
				feature ucp.Features
				name    string
				call    func() error
			}{
				{ucp.FeatureTag, "send", func() error { return run(ep.TagSend(1, buf, nil)) }},
				{ucp.FeatureTag, "receive", func() error { return run(s.TagRecv(1, ucp.FullMask, buf, nil)) }},
				{ucp.FeatureTag, "receive before a synchronous send", func() error {
					req, err := s.TagRecv(2, ucp.FullMask, buf, nil)
					if err == nil {
						t.Cleanup(func() { req.Free() })
					}
					return err
				}},
				{ucp.FeatureTag, "synchronous send", func() error { return run(ep.TagSendSync(2, buf, nil)) }},
				{ucp.FeatureStream, "stream send", func() error { return run(ep.StreamSend(buf, nil)) }},
				{ucp.FeatureStream, "poll", func() error { _, err := s.StreamPoll(make([]ucp.StreamReady, 1)); return err }},
				{ucp.FeatureStream, "stream receive", func() error {
					_, req, err := ep.StreamRecv(buf[:4], nil)
					return run(req, err)
				}},
				{ucp.FeatureStream, "stream data", func() error {
					d, err := ep.StreamRecvData()
					d.Release()
					return err
				}},
				{ucp.FeatureAM, "queue of active messages", func() error { _, err := s.NewAMQueue(ucp.AMQueueParams{ID: 2, Offers: true}); return err }},
				{ucp.FeatureAM, "handler of active messages", func() error {
					return s.SetAMHandler(ucp.AMHandlerParams{ID: 1, Handler: func(*ucp.AMMessage) error { return nil }})
				}},
				{ucp.FeatureAM, "active message", func() error { return run(ep.AMSend(1, nil, buf, nil)) }},
				{ucp.FeatureAM, "active message with a header", func() error { return run(ep.AMSend(1, buf, buf, nil)) }},
				{ucp.FeatureAM, "active message to be answered", func() error { return run(ep.AMSend(1, nil, buf, flagged(ucp.AMSendReply))) }},
				{ucp.FeatureRMA, "put", func() error { return run(ep.Put(buf, addr, key, nil)) }},
				{ucp.FeatureRMA, "get", func() error { return run(ep.Get(buf, addr, key, nil)) }},
				{ucp.FeatureAMO32, "atomic operation on 32 bits", func() error { return run(ep.Atomic(ucp.AtomicAdd, buf[:4], addr, key, nil)) }},
				{ucp.FeatureAMO32, "fetching one on 32 bits", func() error { return run(ep.Atomic(ucp.AtomicSwap, buf[:4], addr, key, reply(4))) }},
				{ucp.FeatureAMO64, "atomic operation on 64 bits", func() error { return run(ep.Atomic(ucp.AtomicAdd, buf, addr, key, nil)) }},
				{ucp.FeatureAMO64, "fetching one on 64 bits", func() error { return run(ep.Atomic(ucp.AtomicSwap, buf, addr, key, reply(8))) }},
				{ucp.FeatureWakeup, "event descriptor", func() error { _, err := s.EventFD(); return err }},
				{ucp.FeatureWakeup, "signal", s.Signal},
				{ucp.FeatureWakeup, "wait", func() error { return s.Wait(context.Background()) }}, // ends by the signal
				{ucp.FeatureWakeup, "arm", func() error {
					for {
						if err := s.Arm(); !errors.Is(err, ucs.ErrBusy) {
							return err
						}
						s.Progress()
					}
				}},
				{0, "flush", func() error { return run(ep.Flush(nil)) }},
				{0, "flush of the worker", func() error { return run(s.Flush(nil)) }},
				{0, "fence", s.Fence},
			} {
				err := c.call()
				if set&c.feature == c.feature && err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				if set&c.feature != c.feature && !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("%s without %v: %v", c.name, c.feature, err)
				}
			}
			if n := s.Stats(); set&ucp.FeatureTag == 0 && n.TagSends+n.TagRecvs != 0 || set&ucp.FeatureStream == 0 && n.StreamSends+n.StreamRecvs != 0 ||
				set&ucp.FeatureAM == 0 && n.AMSends+n.AMRecvs != 0 ||
				set&ucp.FeatureRMA == 0 && n.Puts+n.Gets != 0 || set&atomics == 0 && n.Atomics != 0 {
				t.Errorf("refused operations were counted: %+v", n)
			}
		})
	}
}
