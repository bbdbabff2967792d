//go:build linux

package ucptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The tags of a crowd: the upper bits name the stream, the others are arbitrary.
const (
	streamMask   ucp.Tag = 0xFFFF_0000_0000_0000
	emptyStream  ucp.Tag = 0xE000_0000_0000_0000 // never sent
	passerStream ucp.Tag = 0xD000_0000_0000_0000 // sent over short-lived endpoints
)

func streamOf(n int) ucp.Tag { return ucp.Tag(n+1) << 48 }

// Each message begins with the number of its sender, its own number, and a checksum of the rest.
const (
	headSize    = 16
	longestText = 1 << 20
)

// lengths are chosen to use all protocols.
var lengths = []int{headSize, 24, 60, 64, 200, 2000, 8000, 9000, 70_000, 300_000, longestText}

// compose returns a message.
func compose(rng *rand.Rand, n, seq int) []byte {
	k := rng.IntN(len(lengths))
	if k > 7 && rng.IntN(4) > 0 {
		k = rng.IntN(8)
	}
	b := make([]byte, lengths[k])
	head(b, n, seq)
	for i := headSize; i < len(b); i += 1 + len(b)/64 {
		b[i] = byte(rng.Uint32())
	}
	binary.LittleEndian.PutUint64(b[8:], sum(b[headSize:]))
	return b
}

func head(b []byte, n, seq int) {
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.LittleEndian.PutUint32(b[4:], uint32(seq))
}

func headOf(b []byte) (n, seq int) {
	return int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
}

func sum(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}

// check returns what is wrong with a message.
func check(b []byte, n, seq int) error {
	if len(b) < headSize {
		return fmt.Errorf("%d bytes", len(b))
	}
	switch from, number := headOf(b); {
	case from != n || number != seq:
		return fmt.Errorf("message %d of sender %d, want %d of %d", number, from, seq, n)
	case binary.LittleEndian.Uint64(b[8:]) != sum(b[headSize:]):
		return fmt.Errorf("message %d of sender %d, %d bytes: another content", seq, n, len(b))
	}
	return nil
}

// receiver receives the messages of one sender, in all ways.
type receiver struct {
	*crowd
	n, got int
	rng    *rand.Rand
	posted []posted // receives in flight, for the next messages
}

type posted struct {
	req *ucp.Request
	buf []byte
}

func (r *receiver) run() {
	ways := []func() error{r.post, r.post, r.post, r.blocking, r.takeOut, r.hasty, r.inVain}
	for r.got < r.steps {
		if !r.try("receiving", ways[r.rng.IntN(len(ways))]()) {
			return
		}
	}
}

// take checks that a message is the next one.
func (r *receiver) take(buf []byte, info ucp.TagRecvInfo) error {
	if info.SenderTag&streamMask != streamOf(r.n) {
		return fmt.Errorf("tag %#x for stream %#x", info.SenderTag, streamOf(r.n))
	}
	err := check(buf[:info.Length], r.n, r.got)
	r.got++
	return err
}

// post posts a receive, with a callback or without.
func (r *receiver) post() error {
	if len(r.posted) == 4 || r.got+len(r.posted) == r.steps {
		return r.settlePosted()
	}
	buf := make([]byte, longestText)
	var info ucp.TagRecvInfo
	p := &ucp.RequestParams{TagInfo: &info}
	if r.rng.IntN(2) == 0 {
		p.OnTagRecv = func(*ucp.Request, error, ucp.TagRecvInfo, any) {
			r.inCallbacks++ // callbacks run one at a time
			r.b.TagPeek(emptyStream, ucp.FullMask)
		}
	}
	req, err := r.b.TagRecv(streamOf(r.n), streamMask, buf, p)
	switch {
	case err != nil:
		return err
	case req != nil:
		r.posted = append(r.posted, posted{req, buf})
		return nil
	case len(r.posted) > 0:
		if err := r.settlePosted(); err != nil {
			return err
		}
	}
	return r.take(buf, info)
}

// settlePosted waits for the posted receives.
func (r *receiver) settlePosted() error {
	for _, p := range r.posted {
		if err := r.share(r.rng, p.req); err != nil {
			return err
		}
		info, err := p.req.TagRecvInfo()
		if err != nil {
			return err
		}
		if err := r.take(p.buf, info); err != nil {
			return err
		}
		r.free(r.rng, p.req)
	}
	r.posted = r.posted[:0]
	return nil
}

// next waits for the posted receives, and reports whether there are more messages to come.
func (r *receiver) next() (bool, error) {
	err := r.settlePosted()
	return err == nil && r.got < r.steps, err
}

func (r *receiver) blocking() error {
	if more, err := r.next(); !more {
		return err
	}
	buf := make([]byte, longestText)
	info, err := r.b.TagRecvWait(r.ctx, streamOf(r.n), streamMask, buf)
	if err != nil {
		return err
	}
	return r.take(buf, info)
}

// takeOut receives a message with TagTake, if one has arrived.
func (r *receiver) takeOut() error {
	if more, err := r.next(); !more {
		return err
	}
	m, ok := r.b.TagTake(streamOf(r.n), streamMask)
	if !ok {
		runtime.Gosched()
		return nil
	}
	buf := make([]byte, m.Info().Length)
	info, err := m.RecvWait(r.ctx, buf)
	if err != nil {
		return err
	}
	return r.take(buf, info)
}

// hasty waits for a message and cancels the wait soon. A canceled receive has no part of the
// message.
func (r *receiver) hasty() error {
	if more, err := r.next(); !more {
		return err
	}
	buf := make([]byte, longestText)
	var info ucp.TagRecvInfo
	req, err := r.b.TagRecv(streamOf(r.n), streamMask, buf, &ucp.RequestParams{TagInfo: &info})
	if err == nil && req != nil {
		ctx, cancel := context.WithCancel(r.ctx)
		go cancel()
		if err = req.Wait(ctx); err == context.Canceled {
			err = req.Wait(r.ctx) // was matched before
		}
		if err == nil {
			info, err = req.TagRecvInfo()
		}
		r.free(r.rng, req)
	}
	switch {
	case errors.Is(err, ucs.ErrCanceled) && r.ctx.Err() == nil:
		return nil
	case err != nil:
		return err
	}
	return r.take(buf, info)
}

// inVain waits for messages that are never sent, and cancels.
func (r *receiver) inVain() error {
	tag := emptyStream + ucp.Tag(r.n)
	ctx, cancel := context.WithCancel(r.ctx)
	go cancel()
	if _, err := r.b.TagRecvWait(ctx, tag, ucp.FullMask, nil); !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled) {
		return fmt.Errorf("a receive whose context has ended: %w", err)
	}
	req, err := r.b.TagRecv(tag, ucp.FullMask, nil, nil)
	if err != nil || req == nil {
		return fmt.Errorf("a receive in vain: %v, %w", req, err)
	}
	go r.b.Cancel(req)
	if err := r.share(r.rng, req); !errors.Is(err, ucs.ErrCanceled) {
		return fmt.Errorf("a receive that was canceled: %w", err)
	}
	req.Free()
	return nil
}
