//go:build linux

package pingpong

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// golden is what ibv_rc_pingpong of rdma-core 44 sent as a client, with -g 1 on 10.9.0.2, before
// its final message; recorded by TestRecording.
const golden = "0000:0000a5:3613fc:00000000000000000000ffff0a090002\x00"

var goldenDest = dest{qpn: 0xa5, psn: 0x3613fc, gid: verbs.GID{10: 0xff, 11: 0xff, 12: 10, 13: 9, 15: 2}}

func TestDest(t *testing.T) {
	if got := string(goldenDest.append(nil)); got != golden {
		t.Errorf("written: %q, want %q", got, golden)
	}
	full := dest{lid: 0xfffe, qpn: 0xffffff, psn: 0xabcdef, gid: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}}
	for want, text := range map[dest]string{
		goldenDest: golden,
		full:       "fffe:ffffff:ABCDEF:fe800000000000000000000000000001\x00",
		{}:         "0000:000000:000000:00000000000000000000000000000000\x00",
	} {
		if d, err := parseDest([]byte(text)); err != nil || d != want {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
	for _, bad := range []string{
		"", "\x00", golden[:destLen-1], golden + "\x00", golden[:destLen-1] + "0",
		strings.Repeat("\x00", destLen), strings.Repeat("f", destLen),
		strings.Replace(golden, ":", ";", 1), strings.Replace(golden, "0000:0000a5", "000:00000a5", 1),
		strings.Replace(golden, "3613fc", "+613fc", 1), strings.Replace(golden, "3613fc", " 613fc", 1),
		strings.Replace(golden, "3613fc", "0x13fc", 1), strings.Replace(golden, "ffff", "fffg", 1),
		strings.Replace(golden, "ffff", "ff:f", 1), "GET / HTTP/1.1\r\nHost: localhost:18515\r\nUser-Agent: cur",
	} {
		if d, err := parseDest([]byte(bad)); !errors.Is(err, ucs.ErrInvalidAddr) {
			t.Errorf("%q: %+v, %v", bad, d, err)
		}
	}
}

func FuzzDest(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(strings.ToUpper(golden)))
	f.Add([]byte(strings.Repeat(":", destLen)))
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		d, err := parseDest(b)
		if err != nil {
			if !errors.Is(err, ucs.ErrInvalidAddr) || d != (dest{}) {
				t.Fatalf("%+v, %v", d, err)
			}
			return
		}
		if got := d.append(nil); !bytes.EqualFold(got, b) {
			t.Fatalf("%q read and written is %q", b, got)
		}
	})
}

// wire has the data that a peer sends, and records the data sent to it.
type wire struct {
	io.Reader
	said bytes.Buffer
}

func (w *wire) Write(b []byte) (int, error) { return w.said.Write(b) }

func TestExchange(t *testing.T) {
	own := []dest{{qpn: 0x11, psn: 1, gid: goldenDest.gid}}
	ours := string(own[0].append(nil))
	zero := string(dest{}.append(nil))
	noConnect := errors.New("no connection")
	for _, c := range []struct {
		name    string
		server  bool
		total   int
		hears   string
		connect error
		says    string
		err     error
	}{
		{name: "client", total: 1, hears: golden, says: ours + done},
		{name: "client of many", total: 3, hears: golden + zero + zero, says: ours + zero + zero + done},
		{name: "client, short answer", total: 1, hears: golden[:20], says: ours, err: io.ErrUnexpectedEOF},
		{name: "client, no answer", total: 1, says: ours, err: io.EOF},
		{name: "client, other answer", total: 1, hears: strings.Repeat("x", 100), says: ours, err: ucs.ErrInvalidAddr},
		{name: "client, no QP", total: 1, hears: zero, says: ours, err: ucs.ErrInvalidAddr},
		{name: "client, more QPs", total: 2, hears: golden + golden, says: ours + zero, err: ucs.ErrInvalidAddr},
		{name: "client, not connected", total: 1, hears: golden, connect: noConnect, says: ours, err: noConnect},
		{name: "server", server: true, total: 1, hears: golden + done, says: ours},
		{name: "server, not done", server: true, total: 1, hears: golden, says: ours, err: io.EOF},
		{name: "server, something else", server: true, total: 1, hears: golden + "DONE\x00", says: ours, err: ucs.ErrInvalidAddr},
		{name: "server, other address", server: true, total: 1, hears: strings.ToUpper(zero[1:]) + done, err: ucs.ErrInvalidAddr},
		{name: "server, not connected", server: true, total: 1, hears: golden + done, connect: noConnect, err: noConnect},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &wire{Reader: strings.NewReader(c.hears)}
			exchange := exchangeClient
			if c.server {
				exchange = exchangeServer
			}
			err := exchange(w, own, c.total, func(remote []dest) error {
				if len(remote) != 1 || remote[0] != goldenDest {
					t.Errorf("the peer is %+v", remote)
				}
				return c.connect
			})
			if !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.says, w.said.String()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
		})
	}
}
