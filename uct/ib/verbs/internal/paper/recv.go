//go:build linux

package paper

import "github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"

// recvQueue is a queue of receives, a block each.
type recvQueue struct {
	queue
	head uint32
}

func (q *recvQueue) post(wr []provider.RecvWR) (int, error) {
	if q.mem == nil {
		return 0, provider.ErrNoRQ
	}
	for i := range wr {
		if q.head-q.device() >= q.n {
			return i, provider.ErrQueueFull
		}
		if _, err := provider.Length(wr[i].SGList, recvPieces); err != nil {
			return i, err
		}
		b := q.at(q.head)
		order.PutUint64(b, wr[i].ID)
		b[8] = byte(len(wr[i].SGList))
		for k, s := range wr[i].SGList {
			putPiece(b[16+k*pieceSize:], s)
		}
		q.head++
		q.setProgram(q.head)
	}
	return len(wr), nil
}

// srq is a shared receive queue.
type srq struct {
	recvQueue
	answer [answerSize]byte
}

func (c *context) NewSRQ(a *provider.SRQInit) (provider.SRQ, error) {
	q, err := newQueue(a.MaxWR)
	if err != nil {
		return nil, err
	}
	a.MaxWR, a.MaxSGE = int(q.n), recvPieces
	return &srq{recvQueue: recvQueue{queue: q}}, nil
}

func (s *srq) Data() (in, out []byte) { return s.name(nil), s.answer[:] }
func (s *srq) Detach()                { s.free() }

func (s *srq) Attach(m *provider.SRQMade) error {
	m.MaxWR, m.MaxSGE = int(s.n), recvPieces
	return nil
}

func (s *srq) PostRecv(wr []provider.RecvWR) (int, error) { return s.post(wr) }

// LimitData is nothing but there: the kernel of verbstest does not do without.
func (s *srq) LimitData() []byte { return make([]byte, 8) }

// Resize is never called: the device lacks it.
func (s *srq) Resize(*int) (provider.Resizing, error) {
	panic("paper: resizing a shared receive queue, which the device lacks")
}
