package ucp

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// halfReceived posts a receive and delivers to it the first n bytes of a message of total bytes.
func (v *targetWorker) halfReceived(tag Tag, id proto.MessageID, buf []byte, n, total int) *Request {
	v.Helper()
	r, err := v.TagRecv(tag, FullMask, buf, nil)
	if err != nil {
		v.Fatal(err)
	}
	b := proto.EagerFirst{Tag: proto.Tag(tag), TotalLen: total, MsgID: id}.Append(nil)
	if err := v.tag.onEagerFirst(nil, append(b, bytes.Repeat([]byte{7}, n)...), nil); err != nil {
		v.Fatal(err)
	}
	return r
}

// rest delivers n more bytes of a message.
func (v *targetWorker) rest(id proto.MessageID, off, n int) {
	v.Helper()
	b := proto.EagerMiddle{MsgID: id, Offset: off}.Append(nil)
	if err := v.tag.onEagerMiddle(nil, append(b, bytes.Repeat([]byte{7}, n)...), nil); err != nil {
		v.Fatal(err)
	}
}

// TestDetachedLost: the receive of an incomplete message was canceled. The message stays charged
// until its rest can no longer arrive or the worker ends.
func TestDetachedLost(t *testing.T) {
	for name, end := range map[string]func(v *targetWorker){
		"its connection": func(v *targetWorker) { eagerFamily{}.evict(&v.accounts.unnamed, ucs.ErrExceedsLimit) },
		"its sender": func(v *targetWorker) {
			v.eager.orphanMessages(&v.accounts.unnamed.fragments)
			for !v.eager.orphans.Empty() {
				v.eager.abandonMessage(v.eager.orphans.Front().Value)
			}
		},
		"the worker": func(v *targetWorker) { v.eager.cancelAssemblies(); v.tag.dropMessages() },
	} {
		t.Run(name, func(t *testing.T) {
			v := newTarget(t)
			r := v.halfReceived(1, 5, make([]byte, 10_000), 4000, 10_000)
			v.Cancel(r)
			if r.Err() != ucs.ErrCanceled {
				t.Fatal(r.Err())
			}
			if held := v.Stats().UnexpectedBytes; held < 4000 || held > 16_000 {
				t.Errorf("%d bytes are held of a message of which 4000 have come", held)
			}
			if _, ok := v.TagPeek(0, 0); ok {
				t.Error("a message is there that is not whole")
			}
			end(v)
			if held := v.Stats().UnexpectedBytes; held != 0 || len(v.eager.assemblies) != 0 || v.tag.detached.head != nil {
				t.Errorf("%d bytes are held, %d messages are not whole", held, len(v.eager.assemblies))
			}
			v.exchange()
		})
	}
}

// TestDetachedTooMuch: a receive is not canceled if its message exceeds the worker's limit, and no
// other message is discarded for it.
func TestDetachedTooMuch(t *testing.T) {
	v := newTarget(t)
	n := v.accounts.Limits.Bytes + 1000
	buf := make([]byte, n+10)
	if err := v.tag.onEagerOnly()(nil, make([]byte, 100), nil); err != nil { // of another sender
		t.Fatal(err)
	}
	r := v.halfReceived(1, 5, buf, n, n+10)
	v.Cancel(r)
	if r.Done() || v.Stats().Evicted != 0 {
		t.Fatalf("canceled: %v, %d gave way", r.Err(), v.Stats().Evicted)
	}
	v.rest(5, n, 10)
	if info, err := r.TagRecvInfo(); err != nil || info.Length != len(buf) || buf[n+9] != 7 {
		t.Errorf("%+v, %v", info, err)
	}
	m, ok := v.TagTake(0, 0)
	if !ok {
		t.Fatal("the other message is gone")
	}
	m.Discard()
	v.exchange()
}

// TestDetachedSync checks that a synchronous message that was matched, canceled and matched again
// is acknowledged once, for the first match.
func TestDetachedSync(t *testing.T) {
	v := newTarget(t)
	buf := make([]byte, 100)
	r, err := v.TagRecv(1, FullMask, buf, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := proto.EagerSyncFirst{
		EagerFirst: proto.EagerFirst{Tag: 1, TotalLen: 100, MsgID: 9}, EpID: v.ep.localID, ReqID: 33,
	}.Append(nil)
	before := v.Stats().Dropped // counts acknowledgements of request 33, which does not exist here
	if err := v.tag.onEagerSyncFirst(nil, append(b, make([]byte, 40)...), nil); err != nil {
		t.Fatal(err)
	}
	v.Cancel(r)
	v.rest(9, 40, 60)
	if r, err = v.TagRecv(1, FullMask, buf, nil); err != nil || r != nil || buf[99] != 7 {
		t.Errorf("%v, %v, %x", r, err, buf[99])
	}
	v.exchange()
	if n := v.Stats().Dropped - before; n != 1 {
		t.Errorf("%d acknowledgements", n)
	}
}
