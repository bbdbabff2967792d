//go:build linux

package tcp

import (
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// pausing is a host inside of TLS that stops reading a connection with each message that
// comes, and a peer that is connected to it.
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
		s.Owner.(uct.SourcePauser).PauseSource()
		return nil
	})
	cfg := ca.Mutual("alice")
	cfg.NextProtos = []string{alpn}
	h.peer = dialTLS(t, h.host, cfg)
	h.peer.send(flight(addr("127.0.0.1:5"), 0))
	h.peer.want(ack)
	return h
}

// TestTLSPause: what a paused connection has received and opened is delivered when it is
// resumed, and not before, wherever it waits: behind a message in its record, in a record
// that is half read, or in records that nobody has opened. Nobody waits for an event that
// does not come, and it counts as nobody's beginning of a frame.
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
		if k == 3 { // all before have come
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
		h.src.Owner.(uct.SourcePauser).ResumeSource()
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

// TestTLSPausedEnds: a connection with opened data that nobody has read ends, by the peer
// in good order once it was read, by the peer's reset or by ourselves at once, and gives
// back what it had.
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
					h.src.Owner.(uct.SourcePauser).ResumeSource()
					messages++
					until(t, "the next message", func() bool { return len(h.got) == messages }, h.host)
				}
				h.src.Owner.(uct.SourcePauser).ResumeSource()
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
				h.close() // looks for buffers that are left
			}
			if len(h.got) != messages {
				t.Errorf("%d messages, want %d", len(h.got), messages)
			}
		})
	}
}
