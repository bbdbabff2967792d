//go:build linux

package perfoob

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// pair returns a connection of this package and the plain socket at its other end.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewConn(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		far.Close()
	})
	return c, far
}

// bothSides returns two connected Conns.
func bothSides(t *testing.T) (a, b *Conn) {
	t.Helper()
	a, far := pair(t)
	b, err := NewConn(far)
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func idle() int { return 0 }

func TestConversation(t *testing.T) {
	for r := Release(0); r < numReleases; r++ {
		t.Run(r.String(), func(t *testing.T) {
			server, client := bothSides(t)
			p := DefaultParams()
			p.Test = TestByName("tag_bw")
			p.Sizes = []int{100, 200}
			done := make(chan error, 1)
			go func() {
				done <- func() error {
					if err := client.SendParams(&p, r); err != nil {
						return err
					}
					if _, err := client.ExchangeVector([]byte("client"), 16); err != nil {
						return err
					}
					if _, err := client.ExchangeStatus(ucs.InProgress); err != nil {
						return err
					}
					return client.Barrier(idle)
				}()
			}()

			got, release, err := server.RecvParams()
			if err != nil {
				t.Fatal(err)
			}
			if release != r {
				t.Errorf("release %v, want %v", release, r)
			}
			want := p
			if r == Release113 {
				want.Accelerated = Accelerated{} // which 1.13 lacks
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
			v, err := server.ExchangeVector([]byte("server"), 16)
			if err != nil || string(v) != "client" {
				t.Errorf("vector %q, %v", v, err)
			}
			s, err := server.ExchangeStatus(ucs.OK)
			if err != nil || s != ucs.InProgress {
				t.Errorf("status %v, %v", s, err)
			}
			if err := server.Barrier(idle); err != nil {
				t.Errorf("barrier: %v", err)
			}
			if err := <-done; err != nil {
				t.Errorf("client: %v", err)
			}
		})
	}
}

// TestBarrierProgresses: the peer reaches the barrier only after this side has made progress in it.
func TestBarrierProgresses(t *testing.T) {
	c, far := pair(t)
	rounds := 0
	progress := func() int {
		if rounds++; rounds == 10*idleSpins/4 {
			magic := binary.LittleEndian.AppendUint32(nil, barrierMagic)
			for _, b := range magic { // one byte at a time
				if _, err := far.Write([]byte{b}); err != nil {
					t.Error(err)
				}
			}
		}
		return rounds % 2 // some rounds have an event, so that none of them sleeps
	}
	if err := c.Barrier(progress); err != nil {
		t.Fatal(err)
	}
	if rounds < 10*idleSpins/4 {
		t.Errorf("%d rounds of progress", rounds)
	}
}

func TestBarrierFailures(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		c, far := pair(t)
		far.Close()
		if err := c.Barrier(idle); !errors.Is(err, ucs.ErrConnectionReset) {
			t.Errorf("got %v, want %v", err, ucs.ErrConnectionReset)
		}
	})
	t.Run("half", func(t *testing.T) {
		c, far := pair(t)
		if _, err := far.Write([]byte{0xef, 0xbe}); err != nil {
			t.Fatal(err)
		}
		far.CloseWrite()
		if err := c.Barrier(idle); !errors.Is(err, ucs.ErrConnectionReset) {
			t.Errorf("got %v, want %v", err, ucs.ErrConnectionReset)
		}
	})
	t.Run("other bytes", func(t *testing.T) {
		c, far := pair(t)
		if _, err := far.Write([]byte{1, 2, 3, 4}); err != nil {
			t.Fatal(err)
		}
		if err := c.Barrier(idle); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("got %v, want %v", err, ucs.ErrInvalidParam)
		}
	})
}

func TestAlive(t *testing.T) {
	c, far := pair(t)
	if err := c.Alive(); err != nil {
		t.Errorf("idle: %v", err)
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := c.pollUntilReadable(t); err != nil {
		t.Fatal(err)
	}
	if err := c.Alive(); err != nil {
		t.Errorf("with something to read: %v", err)
	}
	if n, err := c.tryRead(make([]byte, 8)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v, want 1", n, err)
	}
	far.Close()
	if err := c.pollUntilReadable(t); err != nil {
		t.Fatal(err)
	}
	if err := c.Alive(); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("closed: got %v, want %v", err, ucs.ErrConnectionReset)
	}
}

// pollUntilReadable polls until bytes arrive or the connection ends.
func (c *Conn) pollUntilReadable(t *testing.T) (err error) {
	t.Helper()
	ctlErr := c.raw.Control(func(fd uintptr) {
		for {
			if _, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				return
			}
		}
	})
	return errors.Join(ctlErr, err)
}

func TestHostileVectors(t *testing.T) {
	tests := []struct {
		name   string
		length uint64
		body   []byte
		want   error
	}{
		{"too long", 17, nil, ucs.ErrInvalidParam},
		{"absurd", 1 << 63, nil, ucs.ErrInvalidParam},
		{"cut off", 16, []byte("short"), ucs.ErrConnectionReset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, far := pair(t)
			b := binary.LittleEndian.AppendUint64(nil, tt.length)
			if _, err := far.Write(append(b, tt.body...)); err != nil {
				t.Fatal(err)
			}
			far.CloseWrite()
			if v, err := c.ExchangeVector(nil, 16); !errors.Is(err, tt.want) {
				t.Errorf("got %q, %v, want %v", v, err, tt.want)
			}
		})
	}
	for _, status := range [][]byte{{}, {2}, {127}} {
		c, far := pair(t)
		b := binary.LittleEndian.AppendUint64(nil, uint64(len(status)))
		if _, err := far.Write(append(b, status...)); err != nil {
			t.Fatal(err)
		}
		if s, err := c.ExchangeStatus(ucs.OK); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("status % x: got %v, %v, want %v", status, s, err, ucs.ErrInvalidParam)
		}
	}
}
