//go:build linux

package memory

import (
	"errors"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Receiver is a queue that buffers are posted to: a queue pair or a shared receive
// queue.
type Receiver interface {
	PostRecv(wr []verbs.RecvWR) (int, error)
}

// RecvPool is a pool of registered receive buffers. It begins with a few, grows when many
// of the posted buffers were used between two polls, and stops growing when the process may
// pin no more (budget.go). A handler may keep a buffer (uct.AMDesc); another one is then
// posted in its place. When no spare buffer is left, handlers get data only for the call.
// The pool belongs to one goroutine.
type RecvPool struct {
	space   *Space
	queue   Receiver
	size    int // size of a buffer in bytes
	most    int // limit on posted buffers
	keep    int // limit on buffers that handlers keep
	chunks  []chunk
	bufs    []*recvBuf
	spare   []int32 // indexes of buffers that can be posted
	posted  int
	kept    int
	offered int // buffers whose handler is running
	used    int // buffers taken since the completion queue was last seen empty
	short   shortage
	closing bool
	batch   []verbs.RecvWR
}

type recvBuf struct {
	uct.AMDesc
	data  []byte
	sge   [1]verbs.SGE
	state bufState
}

type bufState uint8

const (
	bufSpare   bufState = iota
	bufPosted           // the device owns the buffer
	bufOffered          // the handler of the buffer is running
	bufKept             // a handler keeps the buffer
)

const (
	firstRecvs = 64 // buffers that a pool begins with
	recvBatch  = 16 // buffers posted by one call, at most
)

// Open prepares a pool and posts the first buffers, of size bytes, to the queue, which has room for
// as many buffers as the parameter most says. bufs is the setting RX_MAX_BUFS. Handlers may keep as
// many buffers as bufs exceeds that number; if bufs is auto, half of that number.
func (p *RecvPool) Open(s *Space, q Receiver, size, most int, bufs config.Count) error {
	p.space, p.queue, p.size, p.most, p.keep = s, q, size, max(most, 1), most/2
	if !bufs.IsAuto() {
		p.most = min(max(bufs.Int(0), 1), p.most)
		p.keep = max(bufs.Int(0)-p.most, 0)
	}
	p.batch = make([]verbs.RecvWR, 0, recvBatch)
	if err := p.grow(min(firstRecvs, p.most)); err != nil {
		return err
	}
	return p.Post()
}

// grow adds n buffers.
func (p *RecvPool) grow(n int) error {
	c, err := nextChunk(p.space, p.chunks, n*stride(p.size))
	if err != nil {
		return err
	}
	p.chunks = append(p.chunks, c)
	bufs := make([]recvBuf, n)
	for k := range bufs {
		b, off := &bufs[k], k*stride(p.size)
		b.Owner, b.Index, b.Size = p, len(p.bufs), stride(p.size)
		b.data = c.mem[off : off+p.size : off+p.size]
		b.sge[0] = c.mr.SGE(off, p.size)
		p.spare = append(p.spare, int32(len(p.bufs)))
		p.bufs = append(p.bufs, b)
	}
	return nil
}

// Data returns the memory of the buffer with the number id, which is the ID in its completion. It
// returns nil if there is no such buffer or if it was not posted.
func (p *RecvPool) Data(id uint64) []byte {
	if id >= uint64(len(p.bufs)) || p.bufs[id].state != bufPosted {
		return nil
	}
	return p.bufs[id].data
}

// Take marks a posted buffer as received, before a handler gets it. The returned descriptor is nil
// if the handler may not keep the buffer. The caller must call Done after the handler.
func (p *RecvPool) Take(id uint64) *uct.AMDesc {
	b := p.bufs[id]
	b.state = bufOffered
	p.posted--
	p.offered++
	p.used++
	if p.kept >= p.keep || p.short.why != nil && 2*p.kept >= len(p.bufs) {
		return nil // the other buffers are needed to receive more
	}
	return &b.AMDesc
}

// Done takes back a buffer after its handler has returned; kept is true if the handler keeps it.
func (p *RecvPool) Done(id uint64, kept bool) {
	b := p.bufs[id]
	p.offered--
	switch {
	case kept && b.state == bufOffered:
		b.state = bufKept
		p.kept++
	default: // also if the handler kept the buffer and released it while it ran
		b.state = bufSpare
		p.spare = append(p.spare, int32(id))
	}
	if p.closing {
		p.last()
	}
}

// ReleaseDesc implements uct.DescOwner.
func (p *RecvPool) ReleaseDesc(d *uct.AMDesc) {
	b := p.bufs[d.Index]
	switch b.state {
	case bufKept:
		b.state = bufSpare
		p.kept--
		p.spare = append(p.spare, int32(d.Index))
		p.last()
	case bufOffered:
		b.state = bufSpare // by the handler itself; Done follows
	default:
		panic("ib: received data released twice")
	}
}

// Idle is called when the completion queue is empty. Buffers that are used before and after the
// call do not count as used at the same time.
func (p *RecvPool) Idle() { p.used = 0 }

// Refill posts spare buffers if there are enough to be worth a call, and allocates more if
// almost all were in use at the same time, or are kept.
func (p *RecvPool) Refill() error {
	if want := p.want(); want > 0 && p.short.mayTry() {
		p.used = 0
		p.short.tried(p.grow(want))
	}
	if len(p.spare) < recvBatch && p.posted > p.most/2 {
		return nil
	}
	return p.Post()
}

// want returns the number of buffers to add, 0 if there are enough.
func (p *RecvPool) want() int {
	ours := len(p.bufs) - p.kept // posted, spare and offered
	switch {
	case p.used >= ours/2 && ours < p.most:
		return min(ours, p.most-ours)
	case ours < min(firstRecvs, p.most):
		return min(firstRecvs, p.most) - ours
	}
	return 0
}

// Post posts all spare buffers.
func (p *RecvPool) Post() error {
	for len(p.spare) > 0 && p.posted < p.most {
		p.batch = p.batch[:0]
		for k := len(p.spare) - 1; k >= 0 && len(p.batch) < recvBatch && p.posted+len(p.batch) < p.most; k-- {
			b := p.bufs[p.spare[k]]
			p.batch = append(p.batch, verbs.RecvWR{ID: uint64(b.Index), SGList: b.sge[:]})
		}
		n, err := p.queue.PostRecv(p.batch)
		for k := range n {
			p.bufs[p.batch[k].ID].state = bufPosted
		}
		p.spare = p.spare[:len(p.spare)-n]
		p.posted += n
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset takes back all posted buffers. It is called when the queue was emptied, for example by a
// reset of its queue pair, and no completion of the buffers is left.
func (p *RecvPool) Reset() {
	for k, b := range p.bufs {
		if b.state == bufPosted {
			b.state = bufSpare
			p.spare = append(p.spare, int32(k))
		}
	}
	p.posted = 0
}

// Posted returns the number of buffers that the device has.
func (p *RecvPool) Posted() int { return p.posted }

// Len returns the number of buffers.
func (p *RecvPool) Len() int { return len(p.bufs) }

// Close releases the memory as soon as no handler keeps a buffer and no handler is running. A
// handler may call Close. The queue must be closed before.
func (p *RecvPool) Close() error {
	p.closing = true
	if p.kept+p.offered > 0 {
		return nil
	}
	return p.destroy()
}

// last releases the memory of a closed pool once no buffer is kept or has a running handler.
func (p *RecvPool) last() {
	if p.closing && p.kept+p.offered == 0 {
		p.destroy()
	}
}

func (p *RecvPool) destroy() (err error) {
	for k := range p.chunks {
		err = errors.Join(err, p.chunks[k].free())
	}
	p.chunks, p.spare = nil, nil
	return err
}
