package proto

import (
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

func TestEagerSyncFields(t *testing.T) {
	g := readGolden(t, "tag.txt", "EAGER_SYNC_FIRST")[0]
	h, data, err := ParseEagerSyncFirst(g.bytes)
	want := EagerSyncFirst{
		EagerFirst: EagerFirst{Tag: 0x1337a880, TotalLen: 8, MsgID: 0x91550d400217a9be},
		EpID:       0x7fbbce7df000, ReqID: 0x56016adf8b40,
	}
	if err != nil || h != want || len(data) != 8 {
		t.Errorf("got %+v with %d bytes, %v, want %+v", h, len(data), err, want)
	}
	ack, err := ParseEagerSyncAck(readGolden(t, "tag.txt", "EAGER_SYNC_ACK")[1].bytes)
	if err != nil || ack != (EagerSyncAck{ReqID: h.ReqID}) {
		t.Errorf("got %+v, %v, want the ack of request %#x", ack, err, h.ReqID)
	}
}

func TestEagerSyncPut(t *testing.T) {
	checkPut(t, EagerSyncOnlySize, EagerSyncOnly{1, 2, 3})
	checkPut(t, EagerSyncFirstSize, EagerSyncFirst{EagerFirst{1, 2, 3}, 4, 5})
	checkPut(t, EagerSyncAckSize, EagerSyncAck{1, ucs.ErrCanceled})
	checkTruncation(t, EagerSyncOnlySize, func(b []byte) error { _, _, err := ParseEagerSyncOnly(b); return err })
	checkTruncation(t, EagerSyncFirstSize, func(b []byte) error { _, _, err := ParseEagerSyncFirst(b); return err })
	checkTruncation(t, EagerSyncAckSize, func(b []byte) error { _, err := ParseEagerSyncAck(b); return err })
	checkTruncation(t, OffloadSyncAckSize, func(b []byte) error { _, err := ParseOffloadSyncAck(b); return err })
}

func TestStatusFromWire(t *testing.T) {
	for b, want := range map[byte]ucs.Status{
		0:    ucs.OK,
		0xF0: ucs.ErrCanceled,
		0xB0: ucs.ErrEndpointTimeout,
		1:    ucs.ErrIO, // "in progress" is not a result
		0x7F: ucs.ErrIO,
		0x80: ucs.ErrIO, // below the reserved range
		0x9C: -100,
	} {
		if got := StatusFromWire(b); got != want {
			t.Errorf("%#x: %d, want %d", b, got, want)
		}
	}
	for s := ucs.Status(0); s >= lowestStatus; s-- {
		if got := StatusFromWire(StatusToWire(s)); got != s {
			t.Errorf("status %d came back as %d", s, got)
		}
	}
}

func TestEagerSyncNoAllocs(t *testing.T) {
	buf := make([]byte, 64)
	var sink int
	checkNoAllocs(t, "eager sync", func() {
		sink += EagerSyncOnly{1, 2, 3}.Put(buf)
		_, d, _ := ParseEagerSyncOnly(buf)
		sink += len(d)
		sink += EagerSyncFirst{EagerFirst{1, 100, 3}, 4, 5}.Put(buf)
		_, d, _ = ParseEagerSyncFirst(buf)
		sink += len(d)
		sink += EagerSyncAck{1, ucs.OK}.Put(buf)
		a, _ := ParseEagerSyncAck(buf)
		sink += int(a.ReqID)
	})
	_ = sink
}

func FuzzEagerSyncOnly(f *testing.F) {
	seed(f, "tag.txt", "EAGER_SYNC_ONLY")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, tagCodecs["EAGER_SYNC_ONLY"]) })
}

func FuzzEagerSyncFirst(f *testing.F) {
	seed(f, "tag.txt", "EAGER_SYNC_FIRST")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, tagCodecs["EAGER_SYNC_FIRST"]) })
}

func FuzzEagerSyncAck(f *testing.F) {
	seed(f, "tag.txt", "EAGER_SYNC_ACK")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		h, err := ParseEagerSyncAck(b)
		if err != nil {
			return
		}
		if again, err := ParseEagerSyncAck(h.Append(nil)); err != nil || again != h {
			t.Errorf("%+v came back as %+v, %v", h, again, err)
		}
	})
}

func FuzzOffloadSyncAck(f *testing.F) {
	f.Add(OffloadSyncAck{EpID: 1, Tag: 2}.Append(nil))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		h, err := ParseOffloadSyncAck(b)
		if err != nil {
			return
		}
		if again, err := ParseOffloadSyncAck(h.Append(nil)); err != nil || again != h {
			t.Errorf("%+v came back as %+v, %v", h, again, err)
		}
	})
}
