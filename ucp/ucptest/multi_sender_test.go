//go:build linux

package ucptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// sender sends the messages of one stream, with other operations in between.
type sender struct {
	*crowd
	n     int
	rng   *rand.Rand
	ep    *ucp.Endpoint
	key   *ucp.Rkey
	sends []*ucp.Request // in flight

	at      uint64 // its memory on the other side
	counter uint64 // the value of the first word of that memory
}

func (s *sender) run() {
	k := s.n % len(s.eps)
	s.ep, s.key = s.eps[k], s.keys[k]
	s.at = s.mem.Attr().Address + 8 + uint64(s.n)*space
	others := []func() error{s.put, s.get, s.count, s.fetch, s.flush, s.fence, s.come, s.query, s.nothing, s.nothing}
	for seq := range s.steps {
		if !s.try("an operation", others[s.rng.IntN(len(others))]()) || !s.try("a send", s.send(seq)) {
			return
		}
		if len(s.sends) == 6 && !s.try("a send in flight", s.settle()) {
			return
		}
	}
	if s.try("a send in flight", s.settle()) {
		s.try("the last flush", s.ep.FlushWait(s.ctx))
	}
}

func (s *sender) nothing() error { return nil }

// send sends the next message in one of the ways.
func (s *sender) send(seq int) (err error) {
	b := compose(s.rng, s.n, seq)
	tag := streamOf(s.n) + ucp.Tag(s.rng.Uint64N(1000))
	var req *ucp.Request
	switch s.rng.IntN(6) {
	case 0:
		return s.ep.TagSendWait(s.ctx, tag, b)
	case 1:
		if len(s.sends) > 0 { // the receiver may have to receive these first
			return s.ep.TagSendWait(s.ctx, tag, b)
		}
		return s.ep.TagSendSyncWait(s.ctx, tag, b)
	case 2:
		req, err = s.ep.TagSendSync(tag, b, nil)
	case 3:
		req, err = s.ep.TagSend(tag, b, &ucp.RequestParams{Flags: ucp.OpNoImmediate})
	default:
		req, err = s.ep.TagSend(tag, b, nil)
	}
	if req != nil {
		s.sends = append(s.sends, req)
	}
	return err
}

// settle waits for the sends in flight.
func (s *sender) settle() error {
	for _, req := range s.sends {
		if err := s.share(s.rng, req); err != nil {
			return err
		}
		if err := req.Err(); err != nil {
			return err
		}
		s.free(s.rng, req)
	}
	s.sends = s.sends[:0]
	return nil
}

// wait waits for the end of an operation.
func (s *sender) wait(req *ucp.Request, err error) error {
	if err != nil {
		return err
	}
	err = req.Wait(s.ctx)
	req.Free()
	return err
}

// put writes to its memory and reads it back.
func (s *sender) put() error {
	off := 8 + s.rng.Uint64N(space/2)
	b := make([]byte, 1+s.rng.Uint64N(space/2-8))
	if s.rng.IntN(2) == 0 {
		b = b[:min(len(b), 100)]
	}
	b[0], b[len(b)-1] = byte(s.rng.Uint32()), byte(s.rng.Uint32())
	var err error
	if s.rng.IntN(2) == 0 {
		err = s.ep.PutWait(s.ctx, b, s.at+off, s.key)
	} else {
		err = s.wait(s.ep.Put(b, s.at+off, s.key, nil))
	}
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		return err
	}
	got := make([]byte, len(b))
	if err := s.ep.GetWait(s.ctx, got, s.at+off, s.key); err != nil {
		return err
	}
	if !bytes.Equal(got, b) {
		return fmt.Errorf("%d bytes at %d: not what was put there", len(b), off)
	}
	return nil
}

func (s *sender) get() error {
	req, err := s.ep.Get(make([]byte, 1+s.rng.IntN(9000)), s.at, s.key, nil)
	return s.wait(req, err)
}

// count adds to the word that all senders share.
func (s *sender) count() error {
	v := s.rng.Uint64N(100)
	s.added.Add(v)
	if s.rng.IntN(2) == 0 {
		_, err := ucp.FetchAddWait[uint64](s.ctx, s.ep, s.mem.Attr().Address, s.key, v)
		return err
	}
	req, err := ucp.PostAdd[uint64](s.ep, s.mem.Attr().Address, s.key, v, nil)
	return s.wait(req, err)
}

// fetch changes its own word and checks the value before.
func (s *sender) fetch() error {
	var old uint64
	var err error
	was, v := s.counter, s.rng.Uint64()
	switch s.rng.IntN(4) {
	case 0:
		old, err = ucp.SwapWait[uint64](s.ctx, s.ep, s.at, s.key, v)
	case 1:
		old, err = ucp.CompareSwapWait[uint64](s.ctx, s.ep, s.at, s.key, was, v)
	case 2:
		err = s.wait(ucp.Swap[uint64](s.ep, s.at, s.key, v, &old, nil))
	default:
		var b [8]byte
		err = s.ep.AtomicWait(s.ctx, ucp.AtomicSwap, binary.NativeEndian.AppendUint64(nil, v), s.at, s.key, b[:])
		old = binary.NativeEndian.Uint64(b[:])
	}
	if s.counter = v; err == nil && old != was {
		err = fmt.Errorf("the word was %#x, want %#x", old, was)
	}
	return err
}

func (s *sender) flush() error {
	switch s.rng.IntN(4) {
	case 0:
		return s.a.FlushWait(s.ctx)
	case 1:
		return s.wait(s.a.Flush(nil))
	case 2:
		return s.wait(s.ep.Flush(nil))
	}
	return s.ep.FlushWait(s.ctx)
}

func (s *sender) fence() error { return s.a.Fence() }

// come creates an endpoint, sends a message over it, and closes it.
func (s *sender) come() error {
	addr, err := s.b.Address(0)
	if err != nil {
		return err
	}
	ep, err := s.a.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: s.peerMode()})
	if err != nil {
		return err
	}
	tag := passerStream + ucp.Tag(s.n)
	b := compose(s.rng, s.n, 0)
	buf := make([]byte, len(b))
	recv, err := s.b.TagRecv(tag, ucp.FullMask, buf, nil)
	if err != nil {
		return err
	}
	if err := ep.TagSendSyncWait(s.ctx, tag, b); err != nil {
		return err
	}
	if err := s.wait(recv, nil); err != nil {
		return err
	}
	if err := check(buf, s.n, 0); err != nil {
		return err
	}
	switch s.rng.IntN(3) {
	case 0:
		err = ep.Shutdown(s.ctx)
	case 1:
		err = s.wait(ep.CloseAsync(nil))
	default:
		err = ep.Close()
	}
	if err != nil {
		return err
	}
	if _, err := ep.TagSend(tag, nil, nil); err == nil {
		return errors.New("a closed endpoint sends")
	}
	return ep.Close()
}

// query calls functions that return information.
func (s *sender) query() error {
	s.a.Stats()
	s.b.Attr()
	s.a.Peers()
	s.ep.Attr()
	s.b.TagPeek(emptyStream, ucp.FullMask)
	for _, req := range s.sends {
		if _, err := req.Attr(); err != nil {
			return err
		}
		req.UserData()
	}
	if e := s.ep.Explain(); e.Endpoint == "" {
		return errors.New("nothing was explained")
	}
	key, err := s.mem.PackRkey()
	if err != nil {
		return err
	}
	k, err := s.ep.UnpackRkey(key)
	if err != nil {
		return err
	}
	if k.Compare(s.key) != 0 || k.String() == "" {
		return errors.New("two keys of the same memory differ")
	}
	if err := k.Close(); err != nil {
		return err
	}
	if err := s.a.Signal(); err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
		return err
	}
	return errors.Join(s.ep.Err(), s.a.WriteInfo(io.Discard), s.ep.WriteInfo(io.Discard))
}
