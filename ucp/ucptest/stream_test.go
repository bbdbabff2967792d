//go:build linux

package ucptest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestStreamOverrun: a sender that cannot be stopped sends more than UCX_MAX_UNEXP_BYTES. The
// stream ends: the bytes before can be read, the error names the limit, and the sender's endpoint
// fails.
func TestStreamOverrun(t *testing.T) {
	for _, name := range []string{"posix", "sysv", "self", "sim"} {
		t.Run(name, func(t *testing.T) {
			tr := byName(t, name).with(setting{"MAX_UNEXP_BYTES", "100k"})
			r := newRig(t, tr)
			r.log.Allow("refusing a peer's request")
			r.log.Allow("dropping the connection that holds the most")
			s := r.streamsWith(ucp.EndpointParams{ErrMode: tr.peerMode()})
			s.send(1)
			s.recv(make([]byte, 1), nil)
			for range 100 {
				req, err := s.ab.StreamSend(s.next(3000), nil)
				if err != nil {
					break
				}
				req.Free()
				r.progress()
			}
			s.until("the failure", func() bool { return s.ba.Err() != nil })
			if !errors.Is(s.ba.Err(), ucs.ErrExceedsLimit) {
				t.Errorf("the endpoint has failed with %v", s.ba.Err())
			}
			buf := make([]byte, 200<<10)
			n, err := s.ba.StreamRecvWait(t.Context(), buf)
			if n == 0 || err != nil {
				t.Fatalf("what had come: %d, %v", n, err)
			}
			s.check("what had come", buf[:n])
			if n, err := s.ba.StreamRecvWait(t.Context(), buf); n != 0 || !errors.Is(err, ucs.ErrExceedsLimit) {
				t.Errorf("behind it: %d, %v", n, err)
			}
			if !tr.loopback {
				s.until("the sender's failure", func() bool { return s.ab.Err() != nil })
			}
		})
	}
}

// TestStreamsMulti: many goroutines use a stream each, on two shared workers, while others use the
// workers too. Each stream delivers its bytes in order.
func TestStreamsMulti(t *testing.T) {
	const streams, total = 6, 400_000
	for _, name := range []string{"self, shared", "tcp, shared", "posix and cma, shared"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name))
			a := r.streamSide()
			b := a
			if !r.loopback {
				b = r.streamSide()
			}
			ctx := t.Context()
			var wg sync.WaitGroup
			fail := func(what string, err error) bool {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				return err != nil
			}
			for k := range streams {
				ab := a.connect(b)
				ba := ab
				if a != b {
					ba = b.connect(a)
				}
				wg.Add(1)
				go func() {
					defer wg.Done()
					for off, i := 0, k; off < total; i++ {
						n := min(1+i*i*37%20_000, total-off)
						if i%2 == 0 {
							n = min(1+i%60, total-off)
						}
						if i%3 == 0 {
							if fail("send", ab.StreamSendWait(ctx, streamBytes(off+k, n))) {
								return
							}
						} else {
							req, err := ab.StreamSend(streamBytes(off+k, n), nil)
							if fail("send", err) || i%5 == 0 && fail("a wait", req.Wait(ctx)) {
								return
							}
						}
						off += n
					}
					// The peer acknowledges the flush while it receives, so it must go on.
					if !fail("flush", ab.FlushWait(ctx)) {
						fail("send", ab.StreamSendWait(ctx, streamBytes(total+k, 1)))
					}
				}()
				wg.Add(1)
				go func() {
					defer wg.Done()
					got := make([]byte, 0, total+1)
					buf := make([]byte, 9000)
					for i := 0; len(got) < total+1; i++ {
						part := buf[:min(1+i*i*53%len(buf), total+1-len(got))]
						n, err := 0, error(nil)
						var req *ucp.Request
						switch i % 4 {
						case 0:
							n, err = ba.StreamRecvFullWait(ctx, part)
						case 1:
							n, req, err = ba.StreamRecv(part, nil)
							if req != nil {
								if err = req.Wait(ctx); err == nil {
									n, err = req.RecvLength()
								}
								req.Free()
							}
						case 2:
							var d ucp.StreamData
							if d, err = ba.StreamRecvData(); len(d.Bytes()) > 0 {
								got = append(got, d.Bytes()...)
							}
							d.Release()
						default:
							n, err = ba.StreamRecvWait(ctx, part)
						}
						if fail("receive", err) {
							return
						}
						got = append(got, part[:n]...)
					}
					if string(got) != string(streamBytes(k, total+1)) {
						t.Errorf("stream %d has other bytes", k)
					}
				}()
			}
			wg.Wait()
		})
	}
}

// TestStreamDeadlines checks that reads that are canceled again and again lose nothing, in any
// thread mode.
func TestStreamDeadlines(t *testing.T) {
	for _, name := range []string{"tcp", "posix", "tcp, shared"} {
		t.Run(name, func(t *testing.T) {
			s := newRig(t, byName(t, name)).streams()
			over, cancel := context.WithCancel(context.Background())
			cancel()
			buf := make([]byte, 3000)
			for _, n := range streamLengths {
				s.send0(n)
			}
			for i := 0; s.read < s.sent; i++ {
				read := s.ba.StreamRecvWait
				if i%2 == 0 {
					read = s.ba.StreamRecvFullWait
				}
				part := buf[:1+i*i%len(buf)]
				n, err := read(over, part)
				if err != nil && !errors.Is(err, ucs.ErrCanceled) || err == nil && n == 0 {
					t.Fatal(n, err)
				}
				s.check("what had come", part[:n])
				if err != nil && s.read < s.sent {
					s.ready()
				}
			}
		})
	}
}

// TestStreamExplained checks that Explain has a table for streams, without rendezvous.
func TestStreamExplained(t *testing.T) {
	s := newRig(t, byName(t, "tcp")).streams()
	for _, p := range s.ab.Explain().Protocols {
		if !strings.Contains(p.Title, "stream message") {
			continue
		}
		if strings.Contains(p.Text, "rndv") || !strings.Contains(p.Text, "egr/multi") {
			t.Errorf("of streams: %s", p.Text)
		}
		return
	}
	t.Error("streams are not explained")
}
