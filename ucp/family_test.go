package ucp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// echoFamily is a family made up for this test. It is added as ARCHITECTURE.md says:
// by its own code and a line in the list. The receiver's worker sends each message
// back, and the request is done when the message has come back.
type echoFamily struct {
	noFamily
	state map[*Worker]*echoState // a real family has a field of workerState instead
}

type echoState struct {
	heard, opened, closed int
	stopped               bool
}

// Message ids that C UCX does not use.
const (
	idEchoAsk    proto.AMID = 5
	idEchoAnswer proto.AMID = 13
)

const kindEcho protocolKind = 200

func (echoFamily) about() familyInfo { return familyInfo{name: "echo", features: FeatureTag} }

func (f echoFamily) handlers(w *Worker) []handler {
	return []handler{
		{idEchoAsk, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			if len(data) < 16 {
				return w.logMalformed(ucs.ErrIO)
			}
			f.state[w].heard++
			ep := w.endpoints.Get(binary.LittleEndian.Uint64(data))
			r := ep.control(echoAnswer{})
			r.data.Buf = bytes.Clone(data[8:])
			ep.submit(r)
			return nil
		}},
		{idEchoAnswer, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			r := w.pool.requestIDs.Get(binary.LittleEndian.Uint64(data))
			if !r.is(kindEcho) {
				w.stats.Dropped++
				return nil
			}
			r.finish(unpackData(r, data[8:], 0))
			return nil
		}},
	}
}

func (f echoFamily) start(w *Worker)     { f.state[w] = new(echoState) }
func (f echoFamily) opened(ep *Endpoint) { f.state[ep.w].opened++ }
func (f echoFamily) closed(ep *Endpoint) { f.state[ep.w].closed++ }

func (f echoFamily) stop(w *Worker) error {
	f.state[w].stopped = true
	return nil
}

func (f echoFamily) count(w *Worker, s *Stats) { s.Served += uint64(f.state[w].heard) }

// echoOperation is the operation that the application starts.
type echoOperation struct{}

func (echoOperation) name() string { return "echo" }

func (echoOperation) choose(r *Request) (protocol, error) {
	if r.data.Length > r.ep.cfg.maxBcopy-16 {
		return nil, ucs.ErrExceedsLimit
	}
	r.localID = r.w.pool.requestIDs.Put(r)
	return echoAsk{}, nil
}

// echoAsk sends the message and waits until it comes back.
type echoAsk struct{ basics }

func (echoAsk) about() protocolInfo { return protocolInfo{"echo", kindEcho, needID} }

func (echoAsk) progress(r *Request) error {
	if !r.node.Linked() {
		r.ep.outstanding.Push(&r.node)
	}
	_, err := r.ep.ue.AMBcopy(uct.AMID(idEchoAsk), r.hooks(), 0, nil)
	if err == ucs.InProgress {
		err = nil
	}
	return err
}

func (echoAsk) pack(r *Request, dst []byte) int {
	binary.LittleEndian.PutUint64(dst, uint64(r.ep.remoteID))
	binary.LittleEndian.PutUint64(dst[8:], r.localID)
	return 16 + packData(r, dst[16:16+r.data.Length], 0)
}

// echoAnswer sends the message back.
type echoAnswer struct{ basics }

func (echoAnswer) about() protocolInfo { return protocolInfo{name: "echo answer", needs: needID} }

func (echoAnswer) progress(r *Request) error { return r.sendControl(idEchoAnswer, 0) }

func (echoAnswer) pack(r *Request, dst []byte) int { return copy(dst, r.data.Buf) }

// echo starts the operation, like TagSend.
func (ep *Endpoint) echo(buf []byte) (*Request, error) {
	r, err := ep.w.pool.useRequest(nil)
	if err != nil {
		return nil, err
	}
	r.ep, r.op = ep, echoOperation{}
	r.data.SetBytes(buf)
	ep.submit(r)
	return r.result()
}

// TestNewFamily: a family consists of its code and one line. Its operations wait for
// what they need, end with the endpoint, and take part in everything that goes through
// the list of families.
func TestNewFamily(t *testing.T) {
	echo := echoFamily{state: make(map[*Worker]*echoState)}
	families = append(families, echo) // the line
	t.Cleanup(func() { families = families[:len(families)-1] })

	v := newTarget(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	buf := []byte("hello")
	if ep.needs&needID == 0 {
		t.Fatal("the endpoint has its peer's id at once: the test tests nothing")
	}
	req, err := ep.echo(buf) // done inside the call if wireup is
	if err != nil {
		t.Fatal(err)
	}
	// The counterpart of the endpoint belongs to the same worker.
	other, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; !req.Done() && i < 1000; i++ {
		v.Progress()
	}
	if err := req.Err(); err != nil || string(buf) != "hello" {
		t.Errorf("the echo: %v, %q", err, buf)
	}
	req.Free()
	if s := v.Stats(); s.Served != 1 {
		t.Errorf("%d messages counted", s.Served)
	}
	if _, err := ep.echo(make([]byte, 1<<20)); !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("a message that does not fit: %v", err)
	}

	// An operation without an answer ends with the endpoint.
	ep.needs, ep.handshake.Stage = ep.needs|needID, connect.Requested // as if it was not connected
	req, err = ep.echo(buf)
	if err != nil || req.Done() {
		t.Fatalf("started: %v, %v", req, err)
	}
	if a, err := req.Attr(); err != nil || a.Info == "" {
		t.Errorf("query: %+v, %v", a, err)
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	if err := req.Err(); err != ucs.ErrCanceled {
		t.Errorf("after the end of the endpoint: %v", err)
	}
	req.Free()
	other.w.ends.destroy(other, ucs.ErrCanceled)
	v.exchange()
	s := echo.state[v.Worker]
	if s.opened < 3 || s.closed < 2 || s.stopped {
		t.Errorf("%d endpoints opened, %d closed, stopped %v", s.opened, s.closed, s.stopped)
	}
	if err := v.Worker.Close(); err != nil || s.closed != s.opened || !s.stopped {
		t.Errorf("closing: %v, %d of %d endpoints closed, stopped %v", err, s.closed, s.opened, s.stopped)
	}
}

// TestNeeds: an operation may be started before the endpoint has lanes. Operations go
// on, in their order, when the last of their needs is met.
func TestNeeds(t *testing.T) {
	v := newTarget(t)
	ep, err := v.NewEndpoint(EndpointParams{Address: v.own.address, Flags: EndpointNoLoopback})
	if err != nil {
		t.Fatal(err)
	}
	defer ep.w.ends.destroy(ep, ucs.ErrCanceled)
	ep.needs |= needLanes
	ep.allowShort()
	src := []byte("in order")
	var reqs []*Request
	for tag := range Tag(3) {
		req, err := ep.TagSend(tag, src[tag:], &RequestParams{Flags: OpMultiSend})
		if err != nil || req.Done() || req.proto != nil || ep.shortBelow != 0 {
			t.Fatalf("a send without lanes: %v, %v", req, err)
		}
		reqs = append(reqs, req)
	}
	if _, err := ep.TagSend(9, src, &RequestParams{Flags: OpForceImmediate}); err != ucs.ErrNoResource {
		t.Errorf("at once without lanes: %v", err)
	}
	ep.resolveNeed(needFence) // another need
	if reqs[0].Done() || reqs[0].proto != nil {
		t.Error("a send has begun without lanes")
	}
	ep.resolveNeed(needLanes)
	for i, req := range reqs {
		if err := req.Err(); err != nil {
			t.Errorf("send %d: %v", i, err)
		}
		if m := v.tag.oldest(); m == nil || m.tag != Tag(i) || string(m.data) != string(src[i:]) {
			t.Fatalf("message %d: %v", i, m)
		} else {
			v.tag.discardMessage(m)
		}
		req.Free()
	}
	if ep.shortBelow == 0 {
		t.Error("short sends do not go inline again")
	}
}
