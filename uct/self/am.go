package self

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// AMShort implements uct.Endpoint. It is the fast path: one check for all unusual cases, one copy,
// and the call of the handler.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	i := e.tx
	n := headerLen + len(payload)
	if i.depth >= i.inline || n > i.segSize || id >= uct.MaxAMIDs {
		return e.amShortSlow(id, header, payload)
	}
	b := i.bufs[i.depth][:n]
	binary.LittleEndian.PutUint64(b, header)
	if len(payload) == 8 { // this copy needs no call
		*(*[8]byte)(b[headerLen:]) = [8]byte(payload)
	} else {
		copy(b[headerLen:], payload)
	}
	i.depth++ // the code of deliver, which the compiler does not inline
	err := i.handlers.Deliver(&e.src, id, b, nil)
	if i.depth--; err != nil {
		e.refused(err)
	}
	return nil
}

//go:noinline
func (e *endpoint) amShortSlow(id uct.AMID, header uint64, payload []byte) error {
	m, err := e.begin(id, headerLen+len(payload))
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(m.buf, header)
	m.n = headerLen + copy(m.buf[headerLen:], payload)
	e.home.finish(m)
	return nil
}

// AMShortIOV implements uct.Endpoint. The list is read during the call.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) error {
	m, err := e.begin(id, uct.IOVLen(iov))
	if err != nil {
		return err
	}
	for k := range iov {
		m.n += copy(m.buf[m.n:], iov[k].Data)
	}
	e.home.finish(m)
	return nil
}

// AMBcopy implements uct.Endpoint. Pack is called only when the message is certain to be accepted.
func (e *endpoint) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	if i := e.tx; i.depth < i.inline && id < uct.MaxAMIDs {
		b := i.bufs[i.depth]
		b = b[:p.Pack(b)]
		i.depth++
		err := i.handlers.Deliver(&e.src, id, b, nil)
		if i.depth--; err != nil {
			e.refused(err)
		}
		return len(b), nil
	}
	m, err := e.begin(id, 0)
	if err != nil {
		return 0, err
	}
	m.n = p.Pack(m.buf)
	e.home.finish(m)
	return m.n, nil
}

// begin returns an empty message with room for n bytes, or the reason why it cannot be sent
// now. The caller must pass the message to finish.
func (e *endpoint) begin(id uct.AMID, n int) (message, error) {
	i := e.tx
	switch {
	case i == nowhere:
		return message{}, e.refusal()
	case id >= uct.MaxAMIDs:
		return message{}, kit.ErrAMID(id)
	case n > i.segSize:
		return message{}, errTooLong(n, i.segSize)
	case e.pending.Blocks() || i.backlog.full():
		return message{}, ucs.ErrNoResource
	case i.depth >= maxDepth || i.backlog.len() > 0 || i.waiting.Running():
		return message{from: e, id: id, deferred: true, buf: i.backlog.buffer(i.segSize)}, nil
	}
	if i.bufs[i.depth] == nil {
		i.bufs[i.depth] = make([]byte, i.segSize)
		i.updateInline()
	}
	return message{from: e, id: id, buf: i.bufs[i.depth]}, nil
}

// finish delivers or defers a message from begin.
func (i *iface) finish(m message) {
	if m.deferred {
		m.from.queued++
		i.backlog.push(m)
		i.rouse()
		i.inline = 0
		return
	}
	i.receive(m)
}

//go:noinline
func errTooLong(n, limit int) error {
	return fmt.Errorf("self: active message of %d bytes, at most %d: %w", n, limit, ucs.ErrInvalidParam)
}
