package mailbox

import (
	"encoding/binary"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// begin returns a place for a message of at least n bytes, with the lock of the mailbox held.
// The caller must pass the place to finish.
func (e *endpoint) begin(id uct.AMID, n int) (*message, error) {
	if id >= uct.MaxAMIDs {
		return nil, kit.ErrAMID(id)
	}
	if n > e.i.segSize {
		return nil, fmt.Errorf("mailbox: active message of %d bytes, at most %d: %w", n, e.i.segSize, ucs.ErrInvalidParam)
	}
	if err := e.ready(); err != nil {
		return nil, err
	}
	to := e.conn.to
	to.mu.Lock()
	if e.conn.broken {
		to.mu.Unlock()
		e.fail()
		return nil, e.failed
	}
	if to.count == places {
		to.mu.Unlock()
		return nil, ucs.ErrNoResource
	}
	m := &to.ring[(to.first+to.count)%places]
	if len(m.buf) < n { // the receiver has a smaller segment size
		m.buf = make([]byte, e.i.segSize)
	}
	m.from, m.id = e.conn, id
	return m, nil
}

// finish sends a message of n bytes.
func (e *endpoint) finish(m *message, n int) {
	to := e.conn.to
	m.n = n
	to.count++
	e.conn.queued++
	to.wake(to.messages)
	to.mu.Unlock()
}

func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	m, err := e.begin(id, 8+len(payload))
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(m.buf, header)
	e.finish(m, 8+copy(m.buf[8:], payload))
	return nil
}

func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) error {
	m, err := e.begin(id, uct.IOVLen(iov))
	if err != nil {
		return err
	}
	n := 0
	for k := range iov {
		n += copy(m.buf[n:], iov[k].Data)
	}
	e.finish(m, n)
	return nil
}

func (e *endpoint) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	m, err := e.begin(id, e.i.segSize)
	if err != nil {
		return 0, err
	}
	n := p.Pack(m.buf[:e.i.segSize])
	e.finish(m, n)
	return n, nil
}
