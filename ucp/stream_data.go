package ucp

import "github.com/ucx-go/ucx/ucs"

// StreamData is bytes of a stream where they have arrived, in memory of the library. The
// zero value holds none.
type StreamData struct {
	data  []byte
	w     *Worker
	c     *chunk
	times uint32 // as the chunk's, when it was handed out
}

// Bytes returns the bytes, nil if there are none. They must not be changed, and are valid
// until Release, or until the worker is closed.
func (d StreamData) Bytes() []byte { return d.data }

// Release gives the memory back. It is a call like others: in ThreadModeMulti any goroutine
// may make it, otherwise the worker's. A second Release of the same bytes does nothing.
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

// StreamRecvData takes what is unread of the next packet of the peer's stream, without
// copying it. Nothing, and no error, means that nothing has come, or that what has is for a
// posted receive. How the bytes are cut into packets is the peer's and the transports'
// choice; elements do not matter. The memory is the application's until StreamData.Release,
// and does not count for the peer any more. Of an endpoint that has failed what had come
// is returned, and then the error.
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
