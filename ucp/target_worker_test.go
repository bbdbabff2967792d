package ucp

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// targetWorker is a worker under test, with an endpoint to itself. Tests call its handlers with
// messages of made-up peers.
type targetWorker struct {
	testing.TB
	*Worker
	ep  *Endpoint
	log *logtest.Log
}

// targetFeatures are the features of target workers.
const targetFeatures = FeatureTag | FeatureStream | FeatureRMA | FeatureAMO32 | FeatureAMO64

func newTarget(t testing.TB, settings ...string) *targetWorker {
	t.Helper()
	return newTargetFor(t, targetFeatures, settings...)
}

func newTargetFor(t testing.TB, f Features, settings ...string) *targetWorker {
	t.Helper()
	log := logtest.Watch(t)
	ctx := contextFor(t, f, settings...)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	w := openTarget(t, ctx)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	log.Allow("too many endpoints opened by peers")
	log.Allow("no reverse path to a peer")
	log.Allow("refusing a peer's request")
	return newTargetOf(t, w, log)
}

// targetContext opens a context for target workers.
func targetContext(t testing.TB, settings ...string) *Context {
	t.Helper()
	return contextFor(t, targetFeatures, settings...)
}

func contextFor(t testing.TB, f Features, settings ...string) *Context {
	t.Helper()
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	settings = append([]string{"TLS", "self", "MAX_UNEXP_BYTES", "1m", "CHECK_SOURCE", "y"}, settings...)
	for i := 0; i < len(settings); i += 2 {
		if err := cfg.Modify(settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := NewContext(ContextParams{Features: f}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// openTarget opens a worker for a target worker.
func openTarget(t testing.TB, ctx *Context) *Worker {
	t.Helper()
	w, err := ctx.NewWorker(WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// newTargetOf makes a target worker of a worker.
func newTargetOf(t testing.TB, w *Worker, log *logtest.Log) *targetWorker {
	t.Helper()
	var err error
	v := &targetWorker{TB: t, Worker: w, log: log}
	if v.ep, err = w.NewEndpoint(EndpointParams{Address: w.own.address}); err != nil {
		t.Fatal(err)
	}
	return v
}

// handlers returns the worker's handlers for messages of peers, by name.
func (v *targetWorker) handlers() map[string]uct.AMHandler {
	w := v.Worker
	return map[string]uct.AMHandler{
		"wireup": w.wireups.onWireup, "token": w.admission.onToken,
		"eager only": w.tag.onEagerOnly(), "eager first": w.tag.onEagerFirst, "eager middle": w.tag.onEagerMiddle,
		"sync only": w.tag.onEagerSyncOnly, "sync first": w.tag.onEagerSyncFirst, "sync ack": w.tag.onEagerSyncAck,
		"rts": w.rndv.onRndvRTS, "rtr": w.rndv.onRndvRTR, "data": w.rndv.onRndvData, "ats": w.rndv.onRndvATS, "atp": w.rndv.onRndvATP,
		"put": w.rma.onPut, "get request": w.rma.onGetReq, "get reply": w.rma.onGetRep, "completion": w.rma.onCompletion,
		"atomic request": w.rma.onAtomicReq, "atomic reply": w.rma.onAtomicRep, "stream data": w.stream.onStreamData(),
	}
}

// exchange sends messages of all protocols to the worker itself and checks them.
func (v *targetWorker) exchange() {
	v.Helper()
	v.exchangeOf(0, 8, 5000, 100_000, 1<<20)
}

// exchangeOf does the same for messages of the given lengths.
func (v *targetWorker) exchangeOf(lengths ...int) {
	v.Helper()
	for i, n := range lengths {
		src := bytes.Repeat([]byte{byte(i + 1)}, n)
		buf := make([]byte, n)
		recv, err := v.TagRecv(0x600D, FullMask, buf, nil)
		if err != nil || recv == nil {
			v.Fatalf("receive: %v, %v", recv, err)
		}
		send, err := v.ep.TagSendSync(0x600D, src, nil)
		if err != nil {
			v.Fatal(err)
		}
		for range 10_000 {
			if recv.Done() && send.Done() {
				break
			}
			v.Progress()
		}
		if err := recv.Err(); err != nil {
			v.Fatalf("%d bytes: receive: %v", n, err)
		}
		if err := send.Err(); err != nil {
			v.Fatalf("%d bytes: send: %v", n, err)
		}
		if !bytes.Equal(buf, src) {
			v.Fatalf("%d bytes: wrong message", n)
		}
		recv.Free()
		send.Free()
	}
}

// refused checks that a message was refused as an error of the sender, and counted.
func (v *targetWorker) refused(what string, err error) {
	v.Helper()
	if err == nil {
		v.Errorf("%s: accepted", what)
	}
	if v.stats.Malformed == 0 {
		v.Errorf("%s: not counted", what)
	}
	v.stats.Malformed = 0
}

// dropped checks that a message for an object that no longer exists was ignored, and counted.
func (v *targetWorker) dropped(what string, err error) {
	v.Helper()
	if err != nil {
		v.Errorf("%s: %v", what, err)
	}
	if v.stats.Dropped == 0 {
		v.Errorf("%s: not counted", what)
	}
	v.stats.Dropped = 0
}

// syncSend starts a synchronous send that stays unmatched: posted receives are removed for the time
// of the call.
func (v *targetWorker) syncSend(tag Tag) *Request {
	v.Helper()
	posted := v.tag.tagMatcher
	v.tag.tagMatcher = tagMatcher{hash: posted.hash}
	req := v.unmatched(tag)
	v.tag.tagMatcher = posted
	return req
}

// unmatched starts a synchronous send that stays unmatched, if no receives are posted.
func (v *targetWorker) unmatched(tag Tag) *Request {
	v.Helper()
	req, err := v.ep.TagSendSync(tag, make([]byte, 8), nil)
	if err != nil || req.Done() {
		v.Fatalf("synchronous send: %v, %v", req.Err(), err)
	}
	for d := v.tag.oldest(); d != nil; d = v.tag.oldest() {
		v.tag.removeUnexpected(d)
		v.tag.putMessage(d)
	}
	return req
}

// offer starts a rendezvous of n bytes that gets no answer.
func (v *targetWorker) offer(n int) *Request {
	v.Helper()
	req, err := v.ep.TagSend(0xBAD, zeros[:n], nil)
	if err != nil || req == nil || req.Done() || !req.is(kindOffer) {
		v.Fatalf("a large send is no offer: %v, %v", req, err)
	}
	for d := v.tag.oldest(); d != nil; d = v.tag.oldest() {
		v.tag.removeUnexpected(d)
		v.tag.putMessage(d)
	}
	return req
}

const offerLength = 1 << 20

// zeros is the data of offers.
var zeros [offerLength]byte

// fetching returns a receive that has asked for rendezvous data which never arrives.
func (v *targetWorker) fetching(buf []byte) *Request {
	v.Helper()
	req, err := v.TagRecv(0xF0, FullMask, buf, nil)
	if err != nil {
		v.Fatal(err)
	}
	rts := proto.RndvRTS{Header: 0xF0, EpID: v.ep.localID, ReqID: 0x1234567, Size: len(buf)}
	if err := v.rndv.onRndvRTS(nil, rts.Append(nil), nil); err != nil {
		v.Fatal(err)
	}
	v.stats.Dropped = 0 // the answer to the sender's request, which does not exist
	if req.Done() || !req.is(kindAsk) {
		v.Fatal("the receive does not wait for data")
	}
	return req
}
