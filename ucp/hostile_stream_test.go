package ucp

import (
	"errors"
	"math"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// streamData is a packet of a stream.
func streamData(ep *Endpoint, n int) []byte {
	return append(proto.StreamData{EpID: ep.localID}.Append(nil), make([]byte, n)...)
}

// TestHostileStreams: packets for unknown endpoints are dropped, packets of other peers are
// refused, and empty packets hold no memory.
func TestHostileStreams(t *testing.T) {
	v := newTarget(t)
	for _, id := range []uint64{0, 1, 2, math.MaxUint64, uint64(v.ep.localID) ^ 2, uint64(v.ep.localID) ^ 1<<40} {
		v.dropped("an unknown id", v.stream.onStreamData()(nil, proto.StreamData{EpID: proto.EndpointID(id)}.Append(nil), nil))
	}
	for n := range proto.StreamDataSize {
		v.refused("a short packet", v.stream.onStreamData()(nil, make([]byte, n), nil))
	}
	for range 10_000 {
		if err := v.stream.onStreamData()(nil, streamData(v.ep, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	if v.accounts.Held() != 0 || !v.stream.ready.Empty() {
		t.Errorf("empty packets hold %d bytes", v.accounts.Held())
	}
	// A connection from an address other than that of the peer, which is this worker.
	c := from("192.0.2.1")
	v.log.Allow("message dropped: it names an operation with another peer")
	if err := v.stream.onStreamData()(&c.Source, streamData(v.ep, 8), nil); err != nil {
		t.Error(err)
	}
	if v.ep.stream != nil && v.ep.stream.unread != 0 || v.stats.Refused == 0 {
		t.Error("another's bytes were taken")
	}
	was := v.ep.life
	v.ep.life.Stage, v.ep.life.Closed = life.Draining, true
	v.dropped("a closing endpoint", v.stream.onStreamData()(nil, streamData(v.ep, 8), nil))
	v.ep.life = was
	v.ep.err = ucs.ErrConnectionReset
	v.dropped("a failed endpoint", v.stream.onStreamData()(nil, streamData(v.ep, 8), nil))
	v.ep.err = nil
	c.Gone()
	v.exchange()
}

// TestHostileTinyPackets: packets of one byte are charged with the memory that they occupy.
func TestHostileTinyPackets(t *testing.T) {
	v := newTarget(t, "MAX_UNEXP_BYTES", "64k")
	n := 0
	var err error
	for ; err == nil; n++ {
		err = v.stream.onStreamData()(nil, streamData(v.ep, 1), nil)
		if held := v.accounts.Held(); held > 64<<10+64<<10/16 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	if n < 10 || n > 64<<10/chunkSize+1 || !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("packet %d: %v", n, err)
	}
	// The stream has ended, and the bytes that had arrived can be read.
	buf := make([]byte, 1<<10)
	if got, req, err := v.ep.StreamRecv(buf, nil); got != n-1 || req != nil || err != nil {
		t.Errorf("%d of %d bytes: %v, %v", got, n-1, req, err)
	}
	if got, _, err := v.ep.StreamRecv(buf, nil); got != 0 || !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("afterwards: %d, %v", got, err)
	}
	if v.accounts.Held() != 0 {
		t.Errorf("%d bytes are held", v.accounts.Held())
	}
}

// TestEvictedStream: an eviction ends the stream together with its endpoint. The memory of the
// stream is freed, and other peers are not affected.
func TestEvictedStream(t *testing.T) {
	v := newServer(t, "MAX_UNEXP_BYTES", "100k")
	ep := v.ep
	hog := from("192.0.2.1")
	src := v.accounts.sourceOf(&hog.Source)
	for range 20 {
		if err := ep.w.stream.streaming(ep).keep(src, make([]byte, 4000), nil); err != nil {
			t.Fatal(err)
		}
	}
	modest := from("198.51.100.1")
	if got := v.brings(modest, 5, 20); got != 20 {
		t.Errorf("who holds less has brought %d messages", got)
	}
	if hog.dropped == nil || modest.dropped != nil {
		t.Errorf("dropped: %v, %v", hog.dropped, modest.dropped)
	}
	if !errors.Is(ep.err, ucs.ErrExceedsLimit) {
		t.Errorf("the endpoint has failed with %v", ep.err)
	}
	if n, req, err := ep.StreamRecv(make([]byte, 8), nil); n != 0 || req != nil || !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("a receive: %d, %v, %v", n, req, err)
	}
	if src.Held() != 0 || !src.streams.Empty() || ep.stream.held != 0 {
		t.Errorf("%d bytes are held", src.Held())
	}
	modest.Gone()
}

// TestStreamChunksAreTheirs: a second release of library memory does not free the data that uses
// the memory next. The end of the worker frees what is left.
func TestStreamChunksAreTheirs(t *testing.T) {
	v := newTarget(t)
	take := func() StreamData {
		t.Helper()
		if err := v.stream.onStreamData()(nil, streamData(v.ep, 100), nil); err != nil {
			t.Fatal(err)
		}
		d, err := v.ep.StreamRecvData()
		if err != nil || len(d.Bytes()) != 100 {
			t.Fatal(len(d.Bytes()), err)
		}
		return d
	}
	d := take()
	d.Release()
	e := take()
	if d.c != e.c {
		t.Fatal("the object is not used again, so this shows nothing")
	}
	d.Release()
	if !e.c.node.In(&v.stream.lent) {
		t.Error("an old release has taken it back")
	}
	f := take()
	e.Release()
	if v.accounts.Held() != 0 || v.stream.lent.Front() != &f.c.node || f.c.node.Next() != nil {
		t.Error("another one was taken back")
	}
}

// evicting is a datatype whose Unpack evicts the sender.
type evicting struct{ call func() }

func (d evicting) StartPack(any, int) (PackState, error)     { return nil, nil }
func (d evicting) StartUnpack(any, int) (UnpackState, error) { return d, nil }
func (d evicting) PackedSize() int                           { return 100 }
func (d evicting) Finish()                                   {}
func (d evicting) Unpack(int, []byte) error                  { d.call(); return nil }

// TestEvictedWhileUnpacking: a stream may be evicted while a datatype unpacks its bytes.
func TestEvictedWhileUnpacking(t *testing.T) {
	v := newServer(t)
	c := from("192.0.2.1")
	src := v.accounts.sourceOf(&c.Source)
	for range 3 {
		if err := v.ep.w.stream.streaming(v.ep).keep(src, make([]byte, 70), nil); err != nil {
			t.Fatal(err)
		}
	}
	dt := NewGeneric(evicting{func() { src.Evict(ucs.ErrExceedsLimit) }})
	n, req, err := v.ep.StreamRecv(nil, &RequestParams{Buffer: Generic(dt, nil, 1), StreamFlags: StreamRecvWaitAll})
	if req != nil || n != 0 || !errors.Is(err, ucs.ErrExceedsLimit) {
		t.Errorf("%d, %v, %v", n, req, err)
	}
	if v.accounts.Held() != 0 || !v.ep.stream.chunks.Empty() || !src.streams.Empty() || c.dropped == nil {
		t.Errorf("%d bytes are held", v.accounts.Held())
	}
}
