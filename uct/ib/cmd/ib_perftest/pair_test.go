//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// limit bounds a test that hangs.
const limit = 60 * time.Second

// opener opens the device of a session.
type opener func(name string) (*verbs.Context, string, error)

// device returns an opener of a simulated device, which works on its own until the test ends.
func device(t *testing.T) opener {
	t.Helper()
	ucttest.NoLeaks(t)
	k := verbstest.New()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
				k.Progress()
				runtime.Gosched()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
		if k.Objects() != 0 || k.Mapped() != 0 {
			t.Errorf("%d objects and %d mappings left behind", k.Objects(), k.Mapped())
		}
	})
	return func(name string) (*verbs.Context, string, error) {
		c, err := verbs.NewContext(k.Open(), 2)
		return c, "fake0", err
	}
}

// side is one side of a test in this process, with its results.
type side struct {
	session
	out bytes.Buffer
	err error
	mem []byte // a copy of the memory
}

func newSide(t testing.TB, open opener, args string) *side {
	t.Helper()
	o, err := parseOptions(strings.Fields(args))
	if err != nil {
		t.Fatal(err)
	}
	s := &side{}
	s.session = session{options: o, out: &s.out, open: open, yield: runtime.Gosched, inspect: func(*session) { s.mem = bytes.Clone(s.buf) }}
	return s
}

func (s *side) run(ctx context.Context) { s.err = s.session.run(ctx) }

// pair runs both sides of a test.
func pair(t *testing.T, open opener, args string) (server, client *side) {
	t.Helper()
	args += " -p " + strconv.Itoa(porttest.Free(t))
	server, client = newSide(t, open, args), newSide(t, open, args+" 127.0.0.1")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.run(ctx)
	}()
	for {
		client.run(ctx)
		if !strings.Contains(fmt.Sprint(client.err), "refused") {
			break
		}
		client = newSide(t, open, args+" 127.0.0.1") // the server does not listen yet
	}
	if client.err != nil {
		cancel()
	}
	<-done
	if server.err != nil || client.err != nil {
		t.Fatalf("server: %v, client: %v", server.err, client.err)
	}
	return server, client
}

// rows returns the numbers in the rows of the table.
func rows(t testing.TB, out string) [][]float64 {
	t.Helper()
	_, table, _ := strings.Cut(out, " #bytes")
	var list [][]float64
	for _, text := range strings.Split(table, "\n")[1:] {
		if !strings.HasPrefix(text, " ") {
			continue
		}
		var row []float64
		for _, f := range strings.Fields(text) {
			v, err := strconv.ParseFloat(f, 64)
			if err != nil {
				t.Errorf("%q in row %q", f, text)
			}
			row = append(row, v)
		}
		list = append(list, row)
	}
	return list
}

// checkRows checks that the printed results are plausible.
func (s *side) checkRows(t *testing.T) {
	t.Helper()
	got := rows(t, s.out.String())
	sizes := s.sizes()
	switch {
	case !s.bw && s.fetches() && !s.peer.client:
		sizes = nil
	case s.bw && s.verb != verbSend && !s.peer.client && !s.both:
		sizes = sizes[len(sizes)-1:] // the client reports only the last size
	}
	if len(got) != len(sizes) {
		t.Fatalf("%d rows, want %d:\n%s", len(got), len(sizes), s.out.String())
	}
	for i, row := range got {
		columns := 9
		switch {
		case s.bw:
			columns = 5
		case s.duration > 0:
			columns = 4
		}
		if len(row) != columns || row[0] != float64(sizes[i]) || s.duration == 0 && row[1] != float64(s.iters) || row[1] < 1 {
			t.Errorf("row %v of %d columns, size %d", row, len(row), sizes[i])
			continue
		}
		for j, v := range row[2:] {
			// Deviation, peak, and bandwidth may be printed as 0.
			if !(v > 0 || v == 0 && (s.bw || j == 4)) {
				t.Errorf("column %d of row %v", j+2, row)
			}
		}
		if columns == 9 && !(row[2] <= row[4] && row[4] <= row[3] && row[2] <= row[5] && row[5] <= row[3] && row[7] <= row[8]) {
			t.Errorf("row %v", row)
		}
	}
}

// checkData checks the data received from the other side. The data of a C peer is unknown, so the
// test only checks that some has arrived.
func (s *side) checkData(t *testing.T, cPeer bool) {
	t.Helper()
	size := s.sizes()[len(s.sizes())-1]
	own, theirs := s.mem[:s.half], s.mem[s.half:]
	filled := func(n int, salt byte) []byte {
		b := make([]byte, n)
		pattern(b, salt)
		return b
	}
	// came compares received data with the data that was sent.
	came := func(where string, got, before, sent []byte) {
		t.Helper()
		if !cPeer {
			if !bytes.Equal(got, sent) {
				t.Errorf("%s: not what was sent", where)
			}
			return
		}
		same := 0
		for i := range got {
			if got[i] == before[i] {
				same++
			}
		}
		// One of 256 random bytes is equal to the previous one.
		if len(got) >= 64 && same > len(got)/8 {
			t.Errorf("%s: %d of %d bytes are as before", where, same, len(got))
		}
	}
	// span returns the length that the messages of a ring cover if there are no gaps.
	span := func(r ring) int {
		if r.slots == 1 {
			return size
		}
		n := min(s.iters, r.slots)
		if s.postList > 1 {
			n = min(n, s.postList) // each list is like the first
		}
		return n * r.step
	}
	before := filled(len(s.mem), 0)
	pattern(before[:s.half], 1)
	pattern(before[s.half:], 2)
	switch {
	case s.verb == verbWrite && !s.bw:
		if s.duration == 0 && theirs[size-1] != byte(s.iters) {
			t.Errorf("the last byte is %d, want %d", theirs[size-1], byte(s.iters))
		}
		if !s.all && bytes.Count(theirs[:size-1], []byte{0}) != size-1 {
			t.Error("bytes that nobody has written")
		}
	case s.verb == verbWrite && (!s.peer.client || s.both):
		n := span(s.ringOf(size))
		came("write", theirs[:n], before[s.half:], filled(n, 1))
	case s.verb == verbRead && (s.peer.client || s.both):
		n := span(s.ringOf(size))
		came("read", own[:n], before, filled(n, 2))
	case s.verb == verbSend && (!s.bw || !s.peer.client || s.both):
		r := s.receives(size)
		if s.conn == verbs.UD {
			// The last message for the first slot of the receiver.
			from := s.ringOf(size)
			off := from.at((s.iters - 1) / r.slots * r.slots)
			came("datagram", theirs[verbs.GRHLength:verbs.GRHLength+size], before[s.half+verbs.GRHLength:], filled(off+size, 1)[off:])
			break
		}
		n := span(r)
		came("send", theirs[:n], before[s.half:], filled(n, 1))
	case s.verb == verbAtomic && !s.swap && (!s.peer.client || s.both):
		total := uint64(0)
		for off := 0; off < s.cycle; off += 8 {
			total += binary.NativeEndian.Uint64(theirs[off:]) - binary.NativeEndian.Uint64(before[s.half+off:])
		}
		if s.duration == 0 && total != uint64(s.iters) {
			t.Errorf("%d was added, want %d", total, s.iters)
		}
	}
}

// variants are command lines of all tests.
var variants = []string{
	"write_lat", "write_lat -s 4096 -I 64", "write_lat -s 8 -I 64 -c UC", "write_lat -s 5000",
	"read_lat -s 8192", "read_lat -s 64 -e",
	"send_lat", "send_lat -s 9000 -r 4", "send_lat -s 64 -c UC -I 100", "send_lat -s 1024 -c UD", "send_lat -s 128 -e", "send_lat -s 64 -t 8 -Q 3",
	"atomic_lat", "atomic_lat -A CMP_AND_SWAP -e",
	"write_bw", "write_bw -s 64 -l 10", "write_bw -s 64 -Q 7 -t 20", "write_bw -s 8192 -c UC -N", "write_bw -s 1024 -b", "write_bw -s 64 -I 64",
	"read_bw", "read_bw -s 64 -o 2", "read_bw -s 4096 -b -e", "read_bw -l 5 -s 128",
	"send_bw", "send_bw -s 64 -r 10", "send_bw -s 2048 -c UC", "send_bw -s 1024 -c UD", "send_bw -s 64 -b", "send_bw -s 64 -c UD -b -t 16", "send_bw -s 256 -e",
	"atomic_bw", "atomic_bw -b -t 10", "atomic_bw -A CMP_AND_SWAP",
}

// TestPair runs tests between two sides on a simulated device.
func TestPair(t *testing.T) {
	for _, args := range variants {
		t.Run(args, func(t *testing.T) {
			server, client := pair(t, device(t), args+" -n 100")
			for _, s := range []*side{server, client} {
				s.checkRows(t)
				s.checkData(t, false)
			}
		})
	}
}

// TestAllSizes runs all sizes of datagrams, which are few.
func TestAllSizes(t *testing.T) {
	for _, args := range []string{"send_lat -a -c UD", "send_bw -a -c UD", "send_bw -a -b -c UD"} {
		t.Run(args, func(t *testing.T) {
			server, client := pair(t, device(t), args+" -n 10")
			server.checkRows(t)
			client.checkRows(t)
			if got := rows(t, client.out.String()); got[len(got)-1][0] != 4096 {
				t.Errorf("the last size is %v", got[len(got)-1][0])
			}
		})
	}
}

// TestDuration runs tests for a second.
func TestDuration(t *testing.T) {
	for _, args := range []string{"write_lat", "send_lat", "read_lat", "send_bw", "send_bw -b"} {
		t.Run(args, func(t *testing.T) {
			server, client := pair(t, device(t), args+" -D 1 -s 64 -f 0")
			server.checkRows(t)
			client.checkRows(t)
		})
	}
}

// TestReplay runs a server against recorded messages of C clients.
func TestReplay(t *testing.T) {
	for name, list := range conversations(t) {
		if name != "read_lat" && name != "write_bw" {
			continue // the others also send data
		}
		t.Run(name, func(t *testing.T) {
			s, conn, done := lonelyServer(t, name+" -s 64 -x 1 -n 20")
			defer conn.Close()
			for i, m := range list {
				if m.client {
					if _, err := conn.Write(m.b); err != nil {
						t.Fatal(err)
					}
					continue
				}
				got := make([]byte, len(m.b))
				if _, err := io.ReadFull(conn, got); err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
				if len(got) <= versionLen && len(got) != reportLen && !bytes.Equal(got, m.b) {
					t.Errorf("message %d: %x, C says %x", i, got, m.b)
				}
				if len(got) == keysGIDLen {
					k, err := parseKeys(got, true)
					c, _ := parseKeys(m.b, true)
					if err != nil || k.gid != c.gid || k.outReads != c.outReads || k.lid != c.lid || k.qpn != s.local.qpn {
						t.Errorf("message %d: %q, C says %q: %v", i, got, m.b, err)
					}
				}
			}
			conn.Close()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if name == "write_bw" {
				if got := rows(t, s.out.String()); len(got) != 1 || got[0][0] != 64 || got[0][1] != 20 || !(got[0][2] > 0) {
					t.Errorf("%v in\n%s", got, s.out.String())
				}
			}
		})
	}
}

// lonelyServer starts a server and connects to it.
func lonelyServer(t *testing.T, args string) (*side, net.Conn, chan error) {
	t.Helper()
	port := strconv.Itoa(porttest.Free(t))
	s := newSide(t, device(t), args+" -p "+port)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	done := make(chan error, 1)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.run(ctx)
		done <- s.err
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	for {
		conn, err := net.Dial("tcp4", "127.0.0.1:"+port)
		if err == nil {
			conn.SetDeadline(time.Now().Add(limit))
			return s, conn, done
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// TestHostilePeer changes one message of a client at a time: the server must end with an error.
func TestHostilePeer(t *testing.T) {
	list := conversations(t)["write_lat"]
	for i, bad := range map[int][]byte{
		0: appendVersion(nil, "5.1"),
		2: appendNumber(nil, 1<<30),
		4: appendNumber(nil, 0),
		6: {'9', 0},
		8: bytes.Repeat([]byte{0xff}, keysGIDLen),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, conn, done := lonelyServer(t, "write_lat -s 64 -x 1 -n 5")
			defer conn.Close()
			for j, m := range list[:i+1] {
				if j == i {
					m.b = bad
				}
				if m.client {
					conn.Write(m.b)
				} else {
					io.ReadFull(conn, make([]byte, len(m.b)))
				}
			}
			if err := <-done; !errors.Is(err, ucs.ErrInvalidParam) && !errors.Is(err, ucs.ErrUnsupported) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestPeerGone checks that a test ends if its peer goes away.
func TestPeerGone(t *testing.T) {
	list := conversations(t)["write_lat"]
	_, conn, done := lonelyServer(t, "write_lat -s 64 -x 1 -n 5")
	for _, m := range list {
		if m.client {
			conn.Write(m.b)
		} else {
			io.ReadFull(conn, make([]byte, len(m.b)))
		}
	}
	conn.Close()
	if err := <-done; !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("%v", err)
	}
}

// TestCanceled checks that a canceled context ends a server that waits for a client.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newSide(t, device(t), "send_lat -p "+strconv.Itoa(porttest.Free(t)))
	cancel()
	if s.run(ctx); s.err == nil {
		t.Error("no error")
	}
}
