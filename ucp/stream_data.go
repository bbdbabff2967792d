package ucp

import "github.com/ucx-go/ucx/ucs"

// StreamData is a piece of a stream in the library's memory, where it arrived. The zero
// value is empty.
type StreamData struct {
	data  []byte
	w     *Worker
	c     *chunk
	times uint32 // as the chunk's, when it was handed out
}

// Bytes returns the bytes, nil if there are none. They must not be changed, and are valid
// until Release, or until the worker is closed.
func (d StreamData) Bytes() []byte { return d.data }

// Release returns the memory to the library. In ThreadModeMulti any goroutine may call it,
// otherwise the worker's. A second Release of the same bytes does nothing.
func (d StreamData) Release() {
	if d.c == nil {
		return
	}
	d.w.enter()
	if d.c.times == d.times {
		d.w.takeBack(d.c)
	}
	d.w.exit()
}

// StreamRecvData takes the unread rest of the next packet of the peer's stream, without
// copying it. An empty result without an error means that nothing has arrived, or that what
// has arrived belongs to a posted receive. The peer and the transports decide where the
// stream is cut into packets, without regard to elements. The memory is the application's
// until StreamData.Release, and is no longer charged to the peer. On a failed endpoint the
// data that had arrived is returned first, then the error.
func (ep *Endpoint) StreamRecvData() (StreamData, error) {
	if ep.missing() {
		return StreamData{}, errMissing("Endpoint.StreamRecvData", ep == nil)
	}
	w := ep.w
	w.enter()
	d, err := ep.streamData()
	w.exit()
	return d, err
}

func (ep *Endpoint) streamData() (StreamData, error) {
	w, s := ep.w, ep.stream
	switch {
	case !w.stream.on:
		return StreamData{}, w.lacks("StreamRecvData", FeatureStream)
	case ep.life.Refuses():
		return StreamData{}, ucs.ErrNotConnected
	case s == nil || s.first == nil:
		return StreamData{}, ep.err
	case s.recvs.head != nil || s.feeding:
		return StreamData{}, nil
	}
	c := s.pop()
	if s.first == nil {
		s.relist()
	}
	if c.next = w.stream.lent; c.next != nil {
		c.next.prev = c
	}
	w.stream.lent = c
	return StreamData{data: c.data, w: w, c: c, times: c.times}, nil
}

// takeBack takes back a chunk that the application has.
func (w *Worker) takeBack(c *chunk) {
	if c.prev == nil {
		w.stream.lent = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	c.times++
	w.putChunk(c)
}
