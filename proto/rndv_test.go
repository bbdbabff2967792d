package proto

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

var rndvCodecs = map[string]recode{
	"RNDV_RTS": func(b []byte) ([]byte, error) {
		h, tail, err := ParseRndvRTS(b)
		return append(h.Append(nil), tail...), err
	},
	"RNDV_RTR": func(b []byte) ([]byte, error) {
		h, key, err := ParseRndvRTR(b)
		return append(h.Append(nil), key...), err
	},
	"RNDV_DATA": func(b []byte) ([]byte, error) {
		h, data, err := ParseRndvData(b)
		return append(h.Append(nil), data...), err
	},
	"RNDV_ATP": recodeRndvAck,
	"RNDV_ATS": recodeRndvAck,
}

func recodeRndvAck(b []byte) ([]byte, error) {
	h, err := ParseRndvAck(b)
	return h.Append(nil), err
}

func TestRndvGolden(t *testing.T) { checkGolden(t, "rndv.txt", rndvCodecs) }

// TestRndvExchange follows a captured rendezvous: each message refers to ids of the one before.
func TestRndvExchange(t *testing.T) {
	g := readGolden(t, "rndv.txt")
	rts, tail, err := ParseRndvRTS(g[0].bytes)
	if err != nil {
		t.Fatal(err)
	}
	if rts.Op != RndvTag || rts.Header != 0x1337a880 || rts.Size != 100000 || rts.Address != 0x7fc3a047a000 {
		t.Errorf("rts %+v", rts)
	}
	key, user, err := rts.SplitRTS(tail)
	if err != nil || len(user) != 0 {
		t.Fatalf("tail %x, %v", user, err)
	}
	k, n, err := ParseRkey(key)
	if err != nil || n != len(key) || k.MDMap != 1 {
		t.Errorf("key %x: %+v, %d, %v", key, k, n, err)
	}
	rtr, key, err := ParseRndvRTR(g[1].bytes)
	if err != nil || rtr.SendReqID != rts.ReqID || rtr.Size != rts.Size || rtr.Offset != 0 || len(key) != 10 {
		t.Errorf("rtr %+v, %v answers %+v", rtr, err, rts)
	}
	atp, err := ParseRndvAck(g[2].bytes)
	if want := (RndvAck{ReqID: rtr.RecvReqID, Size: rts.Size, HasSize: true}); err != nil || atp != want {
		t.Errorf("atp %+v, %v, want %+v", atp, err, want)
	}
}

func TestRndvAM(t *testing.T) {
	h := RndvRTS{Header: AMHeader{ID: 7, HeaderLen: 3}.Word(), Address: 1, Size: 9, Op: RndvAM}
	b := append(h.Append(nil), "the-keyhdr"...)
	got, tail, err := ParseRndvRTS(b)
	if err != nil || got != h {
		t.Fatalf("%+v, %v", got, err)
	}
	key, user, err := got.SplitRTS(tail)
	if err != nil || string(key) != "the-key" || string(user) != "hdr" {
		t.Errorf("key %q, user header %q, %v", key, user, err)
	}
	if _, _, err := got.SplitRTS(tail[:2]); !errors.Is(err, ucs.ErrIO) {
		t.Errorf("user header longer than the message: %v", err)
	}
}

func TestRndvRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parse func() error
	}{
		{"rts with a negative size", func() error { _, _, err := ParseRndvRTS(RndvRTS{Size: -1}.Append(nil)); return err }},
		{"rts of an unknown operation", func() error { _, _, err := ParseRndvRTS(RndvRTS{Op: 3}.Append(nil)); return err }},
		{"rtr that wraps around", func() error {
			_, _, err := ParseRndvRTR(RndvRTR{Size: maxSize, Offset: 1}.Append(nil))
			return err
		}},
		{"rtr with a negative offset", func() error { _, _, err := ParseRndvRTR(RndvRTR{Offset: -1}.Append(nil)); return err }},
		{"data that wraps around", func() error {
			_, _, err := ParseRndvData(append(RndvData{Offset: maxSize}.Append(nil), 1))
			return err
		}},
		{"ack with a negative size", func() error { _, err := ParseRndvAck(RndvAck{Size: -1, HasSize: true}.Append(nil)); return err }},
	} {
		if err := tc.parse(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	checkTruncation(t, RndvRTSSize, func(b []byte) error { _, _, err := ParseRndvRTS(b); return err })
	checkTruncation(t, RndvRTRSize, func(b []byte) error { _, _, err := ParseRndvRTR(b); return err })
	checkTruncation(t, RndvDataSize, func(b []byte) error { _, _, err := ParseRndvData(b); return err })
	checkTruncation(t, RndvAckShortSize, func(b []byte) error { _, err := ParseRndvAck(b); return err })
}

func TestRndvPut(t *testing.T) {
	checkPut(t, RndvRTSSize, RndvRTS{1, 2, 3, 4, 5, RndvAM})
	checkPut(t, RndvRTRSize, RndvRTR{1, 2, 3, 4, 5})
	checkPut(t, RndvDataSize, RndvData{1, 2})
	checkPut(t, RndvAckSize, RndvAck{1, ucs.ErrMessageTruncated, 3, true})
	if n := len(RndvAck{ReqID: 1}.Append(nil)); n != RndvAckShortSize {
		t.Errorf("ack without size has %d bytes, want %d", n, RndvAckShortSize)
	}
}

func TestRndvNoAllocs(t *testing.T) {
	buf := make([]byte, 64)
	var sink int
	checkNoAllocs(t, "rndv", func() {
		sink += RndvRTS{1, 2, 3, 4, 5, RndvTag}.Put(buf)
		h, d, _ := ParseRndvRTS(buf)
		k, _, _ := h.SplitRTS(d)
		sink += len(k)
		sink += RndvRTR{1, 2, 3, 4, 5}.Put(buf)
		_, d, _ = ParseRndvRTR(buf)
		sink += len(d)
		sink += RndvData{1, 2}.Put(buf)
		_, d, _ = ParseRndvData(buf)
		sink += len(d)
		sink += RndvAck{1, ucs.OK, 3, true}.Put(buf)
		a, _ := ParseRndvAck(buf)
		sink += a.Size
	})
	_ = sink
}

func FuzzRndvRTS(f *testing.F) {
	seed(f, "rndv.txt", "RNDV_RTS")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		checkExact(t, b, rndvCodecs["RNDV_RTS"])
		h, tail, err := ParseRndvRTS(b)
		if err != nil {
			return
		}
		if key, user, err := h.SplitRTS(tail); err == nil && len(key)+len(user) != len(tail) {
			t.Errorf("%d bytes split into %d and %d", len(tail), len(key), len(user))
		}
	})
}

func FuzzRndvRTR(f *testing.F) {
	seed(f, "rndv.txt", "RNDV_RTR")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, rndvCodecs["RNDV_RTR"]) })
}

func FuzzRndvData(f *testing.F) {
	seed(f, "rndv.txt", "RNDV_DATA")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, rndvCodecs["RNDV_DATA"]) })
}

func FuzzRndvAck(f *testing.F) {
	seed(f, "rndv.txt", "RNDV_ATP", "RNDV_ATS")
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		h, err := ParseRndvAck(b)
		if err != nil {
			return
		}
		if again, err := ParseRndvAck(h.Append(nil)); err != nil || again != h {
			t.Errorf("%+v came back as %+v, %v", h, again, err)
		}
	})
}
