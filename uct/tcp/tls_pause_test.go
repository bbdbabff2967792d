//go:build linux

package tcp

import (
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// pausing is a host with TLS whose handler pauses the connection at each message, and a connected
// peer.
type pausing struct {
	*host
	peer *tlsPeer
	got  []string
	src  *uct.Source // of the last message
}

func newPausing(t *testing.T) *pausing {
	t.Helper()
	ca := certtest.New()
	h := &pausing{host: tlsHost(t, ca.Mutual("bob"))}
	h.iface.SetAMHandler(1, func(s *uct.Source, data []byte, _ *uct.AMDesc) error {
		h.got, h.src = append(h.got, string(data)), s
		s.Owner.(uct.Connection).PauseSource()
		return nil
	})
	cfg := ca.Mutual("alice")
	cfg.NextProtos = []string{alpn}
	h.peer = dialTLS(t, h.host, cfg)
	h.peer.send(flight(addr("127.0.0.1:5"), 0))
	h.peer.want(ack)
	return h
}

// TestTLSPause: data that a paused connection has received is delivered after it is resumed, not
// before, whether it is behind a message in the same record, in a partly read record, or in records
// not yet decrypted. Meanwhile the worker can sleep, and the data is not charged to the peer as an
// incomplete frame.
func TestTLSPause(t *testing.T) {
	h := newPausing(t)
	h.peer.send(am(1, "x"), am(1, "y"), am(1, "z")) // one record
	want := []string{"x", "y", "z"}
	var frames [][]byte
	for _, m := range []string{"a", "b", strings.Repeat("c", 2000), "d", strings.Repeat("e", 60_000), "f",
		strings.Repeat("g", 5000), strings.Repeat("h", 8000), strings.Repeat("i", 16_384), "j", strings.Repeat("k", 60_000), "l"} {
		frames, want = append(frames, am(1, m)), append(want, m)
	}
	for k := range want {
		if k == 3 { // all before it were delivered
			h.peer.send(frames...)
		}
		until(t, "a message", func() bool { return len(h.got) > k }, h.host)
		h.peer.wantSilence()
		if len(h.got) != k+1 {
			t.Fatalf("%d messages, the connection was paused at the one before number %d", len(h.got), k+1)
		}
		if h.got[k] != want[k] {
			t.Fatalf("message %d is %.8q with %d bytes", k, h.got[k], len(h.got[k]))
		}
		if err := armed(h.host); err != nil {
			t.Fatalf("a paused connection keeps the worker awake: %v", err)
		}
		for _, g := range h.iface.svc.guests.of {
			if g.held != 0 {
				t.Fatalf("%d bytes are charged while nobody reads", g.held)
			}
		}
		h.src.Owner.(uct.Connection).ResumeSource()
		if err := armed(h.host); err != ucs.ErrBusy {
			t.Fatalf("what may wait does not keep the worker awake: %v", err)
		}
	}
	h.peer.wantSilence()
	if len(h.got) != len(want) {
		t.Errorf("%d messages, %d were sent", len(h.got), len(want))
	}
	h.peer.send(fin)
	h.peer.wantClosed()
	exact(t, h.host, 0)
}

// TestTLSPausedEnds ends a paused connection that has decrypted, undelivered data. If the peer
// closes it, the data is delivered first; after a reset, or if this side drops or closes it, the
// connection ends at once. Its buffers are returned.
func TestTLSPausedEnds(t *testing.T) {
	for _, how := range []string{"closed by the peer", "reset by the peer", "dropped", "host closed"} {
		t.Run(how, func(t *testing.T) {
			h := newPausing(t)
			h.peer.send(am(1, "a"), am(1, strings.Repeat("b", 60_000)), am(1, "c"))
			until(t, "a message", func() bool { return len(h.got) == 1 }, h.host)
			h.peer.wantSilence()
			messages := 1
			switch how {
			case "closed by the peer":
				h.peer.meanwhile(func() { h.peer.tc.Close() })
				for range 50 {
					h.w.Progress()
				}
				exact(t, h.host, 1)
				for range 2 {
					h.src.Owner.(uct.Connection).ResumeSource()
					messages++
					until(t, "the next message", func() bool { return len(h.got) == messages }, h.host)
				}
				h.src.Owner.(uct.Connection).ResumeSource()
			case "reset by the peer":
				h.peer.tc.NetConn().(interface{ SetLinger(int) error }).SetLinger(0)
				h.peer.tc.NetConn().Close()
			case "dropped":
				h.src.Drop(ucs.ErrCanceled)
			case "host closed":
				h.close()
			}
			if how != "host closed" {
				until(t, "the end", func() bool { return h.conns() == 0 }, h.host)
				h.close() // checks for buffers that are still in use
			}
			if len(h.got) != messages {
				t.Errorf("%d messages, want %d", len(h.got), messages)
			}
		})
	}
}
