package ucp

import (
	"context"

	"github.com/ucx-go/ucx/ucs"
)

// callAMRecv says what belongs to the call.
var callAMRecv = callRule{"a receive of an active message", accessFlags, paramBuffer | paramOnAMRecv | paramRecvLength | paramMemoryType}

// Recv receives the data: it fetches the data from the sender, or copies what has already
// arrived. Data longer than buf ends the receive with ucs.ErrMessageTruncated, and the
// sender's request with success.
//
// Recv consumes the message, whatever it returns. The exception is OpForceImmediate: if the
// data is still at the sender, Recv returns ucs.ErrNoResource and the message stays the
// caller's. Within the handler Header, and Data if it has arrived, stay valid until the
// handler returns. A second Recv gives ucs.ErrInvalidParam.
//
// The receive cannot be canceled. It ends at the latest when the endpoint to the sender
// ends.
func (m *AMMessage) Recv(buf []byte, p *RequestParams) (*Request, error) {
	if m.missing() {
		return nil, errMissing("AMMessage.Recv", m == nil)
	}
	w := m.w
	w.enter()
	r, err := m.recv(buf, p)
	w.exit()
	return r, err
}

// RecvWait receives the data as Recv does, waits until it is in buf and returns its length.
// The receive cannot be canceled: if ctx ends while data is being fetched from the sender,
// RecvWait still waits for it, until the endpoint to the sender ends. RecvWait must not be
// called in a handler; call Keep there, and RecvWait afterwards.
func (m *AMMessage) RecvWait(ctx context.Context, buf []byte) (int, error) {
	if m.missing() {
		return 0, errMissing("AMMessage.RecvWait", m == nil)
	}
	c, err := m.w.waitingCall(startAMRecv)
	if err != nil {
		return 0, err
	}
	c.am, c.buf = m, buf
	n := 0
	c.use, c.p = memoryWritten, &c.params
	c.p.RecvLength = &c.length
	lost, err := c.await(ctx)
	if lost {
		return 0, err
	}
	if err == nil {
		n = max(c.length, c.info.Length)
	}
	c.drop()
	return n, err
}

func startAMRecv(c *call) (*Request, error) { return c.am.recv(c.buf, c.p) }

func (m *AMMessage) recv(buf []byte, p *RequestParams) (*Request, error) {
	w := m.w
	if m.state&(amLive|amReceived) != amLive {
		return nil, errNoAM
	}
	err := callAMRecv.check(buf, p)
	if err == nil && p != nil && p.Flags&OpForceImmediate != 0 && m.state&amOffered != 0 {
		return nil, ucs.ErrNoResource
	}
	var r *Request
	if err == nil {
		r, err = w.useRequest(p)
	}
	if err == nil {
		r.state |= stateAMRecv
		given := (*Buffer)(nil)
		if p != nil {
			given, r.onRecv = &p.Buffer, p.OnAMRecv
		}
		if err = r.data.initRecv(buf, given); err != nil {
			w.dropRequest(r)
		}
	}
	if err != nil {
		m.refuse(ucs.OK)
		m.taken()
		return nil, err
	}
	r.info = TagRecvInfo{Length: m.length}
	if m.state&amOffered != 0 {
		was := w.asker
		w.asker = m.from
		w.fetch(r, &m.rndv, m.key)
		w.asker = was
	} else {
		r.takeData(m.data)
	}
	m.taken()
	n := r.info.Length
	req, err := r.result()
	if req == nil && err == nil && p != nil && p.RecvLength != nil {
		*p.RecvLength = n
	}
	return req, err
}

// taken ends the life of a message whose data was received or asked for. In the handler
// that is when it returns.
func (m *AMMessage) taken() {
	if m.handled {
		m.state |= amReceived
		m.state &^= amKept
	} else {
		m.drop()
	}
}

// takeData ends a receive with data that is here.
func (r *Request) takeData(data []byte) {
	if len(data) > r.data.length {
		r.finish(ucs.ErrMessageTruncated)
		return
	}
	r.finish(r.data.unpackAt(data, 0))
}
