package sys

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
)

// pair returns two connected non-blocking stream sockets.
func pair(t testing.TB) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

func TestSendRecv(t *testing.T) {
	a, b := pair(t)
	buf := make([]byte, 16)
	if n, e := Recv(b, buf); n != 0 || e != unix.EAGAIN {
		t.Fatalf("Recv of nothing = %d, %v; want 0, EAGAIN, although the socket blocks", n, e)
	}
	if n, e := Send(a, []byte("hello"), 0); n != 5 || e != 0 {
		t.Fatalf("Send = %d, %v", n, e)
	}
	if n, e := Recv(b, buf); e != 0 || string(buf[:n]) != "hello" {
		t.Fatalf("Recv = %q, %v", buf[:n], e)
	}
	unix.Shutdown(a, unix.SHUT_WR)
	if n, e := Recv(b, buf); n != 0 || e != 0 {
		t.Fatalf("Recv at the end = %d, %v; want 0, no error", n, e)
	}
}

func TestSendToFullSocket(t *testing.T) {
	a, b := pair(t)
	chunk := make([]byte, 1<<16)
	sent := 0
	for {
		n, e := Send(a, chunk, 0)
		sent += n
		if e == unix.EAGAIN {
			break
		}
		if e != 0 || n == 0 {
			t.Fatalf("Send = %d, %v", n, e)
		}
	}
	got := 0
	for got < sent {
		n, e := Recv(b, chunk)
		if e != 0 || n == 0 {
			t.Fatalf("Recv = %d, %v after %d of %d bytes", n, e, got, sent)
		}
		got += n
	}
}

func TestSendToClosedPeer(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	unix.Close(fds[1])
	// Without MSG_NOSIGNAL the process would be killed by SIGPIPE here.
	if n, e := Send(fds[0], []byte("x"), 0); n != 0 || e != unix.EPIPE {
		t.Errorf("Send = %d, %v; want 0, EPIPE", n, e)
	}
	var v IOVecs
	v.Add([]byte("x"))
	if n, e := SendVec(fds[0], &v, 0); n != 0 || e != unix.EPIPE {
		t.Errorf("SendVec = %d, %v; want 0, EPIPE", n, e)
	}
}

func TestDiscard(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	for range AtOnce + 3 {
		if _, e := Send(fds[0], []byte("x"), 0); e != 0 {
			t.Fatal(e)
		}
	}
	for _, want := range []int{AtOnce, 3, 0} {
		if n := Discard(fds[1]); n != want {
			t.Errorf("%d datagrams, want %d", n, want)
		}
	}
	if n := Discard(-1); n != 0 {
		t.Errorf("%d datagrams of no socket", n)
	}
}

func TestBadDescriptor(t *testing.T) {
	var v IOVecs
	b := make([]byte, 1)
	v.Add(b)
	for name, call := range map[string]func() (int, unix.Errno){
		"Recv":    func() (int, unix.Errno) { return Recv(-1, b) },
		"Send":    func() (int, unix.Errno) { return Send(-1, b, 0) },
		"RecvVec": func() (int, unix.Errno) { return RecvVec(-1, &v) },
		"SendVec": func() (int, unix.Errno) { return SendVec(-1, &v, 0) },
	} {
		if n, e := call(); n != 0 || e != unix.EBADF {
			t.Errorf("%s = %d, %v; want 0, EBADF", name, n, e)
		}
	}
}

func TestVectors(t *testing.T) {
	a, b := pair(t)
	var out, in IOVecs
	out.Add([]byte("one"))
	out.Add(nil)
	out.Add([]byte("three"))
	if out.Len() != 2 || out.Bytes() != 8 {
		t.Fatalf("Len, Bytes = %d, %d; want 2, 8", out.Len(), out.Bytes())
	}
	if n, e := SendVec(a, &out, 0); n != 8 || e != 0 {
		t.Fatalf("SendVec = %d, %v", n, e)
	}
	x, y := make([]byte, 2), make([]byte, 20)
	in.Add(x)
	in.Add(y)
	n, e := RecvVec(b, &in)
	if n != 8 || e != 0 || string(x)+string(y[:6]) != "onethree" {
		t.Fatalf("RecvVec = %d, %v, %q %q", n, e, x, y)
	}
	if n, e := RecvVec(b, &in); n != 0 || e != unix.EAGAIN {
		t.Fatalf("RecvVec of nothing = %d, %v; want 0, EAGAIN", n, e)
	}
}

// TestIOVecsModel sends random lists in pieces and compares the stream with the concatenation of
// the lists.
func TestIOVecsModel(t *testing.T) {
	a, b := pair(t)
	var v IOVecs
	rapid.Check(t, func(t *rapid.T) {
		v.Reset()
		var want, got []byte
		buf := make([]byte, 4096)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				piece := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "piece")
				v.Add(piece)
				want = append(want, piece...)
			case 1: // consume a part as a short write would
				n := rapid.IntRange(0, v.Bytes()).Draw(t, "part")
				want = append(want[:len(want)-v.Bytes()], want[len(want)-v.Bytes()+n:]...)
				v.Advance(n)
			case 2:
				n, e := SendVec(a, &v, 0)
				if e != 0 || n != v.Bytes() {
					t.Fatalf("SendVec = %d, %v; want %d", n, e, v.Bytes())
				}
				v.Advance(n)
				for n > 0 {
					k, e := Recv(b, buf)
					if e != 0 {
						t.Fatalf("Recv: %v", e)
					}
					got = append(got, buf[:k]...)
					n -= k
				}
				if v.Len() != 0 || v.Bytes() != 0 {
					t.Fatalf("Len, Bytes = %d, %d after all was sent", v.Len(), v.Bytes())
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("got % x, want % x", got, want)
				}
			}
		}
	})
}

func TestLongVector(t *testing.T) {
	a, _ := pair(t)
	var v IOVecs
	for range MaxIOVecs + 1 {
		v.Add([]byte{1})
	}
	if n, e := SendVec(a, &v, 0); n != MaxIOVecs || e != 0 {
		t.Fatalf("SendVec = %d, %v; want %d: one call's worth", n, e, MaxIOVecs)
	}
	v.Advance(MaxIOVecs)
	if v.Len() != 1 || v.Bytes() != 1 {
		t.Fatalf("Len, Bytes = %d, %d; want 1, 1", v.Len(), v.Bytes())
	}
}

func TestResetLetsGo(t *testing.T) {
	var v IOVecs
	v.Add(make([]byte, 8))
	v.Add(make([]byte, 8))
	v.Advance(8)
	v.Reset()
	for _, e := range v.vec[:cap(v.vec)] {
		if e.Base != nil {
			t.Fatal("an entry still points at a buffer")
		}
	}
}

func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("allocation test: the race detector allocates")
	}
	a, b := pair(t)
	var out, in IOVecs
	hdr, body, buf := make([]byte, 8), make([]byte, 64), make([]byte, 256)
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ep)
	var events [8]unix.EpollEvent
	n := testing.AllocsPerRun(100, func() {
		out.Add(hdr)
		out.Add(body)
		k, _ := SendVec(a, &out, 0)
		out.Advance(k)
		in.Add(buf)
		if k, _ := RecvVec(b, &in); k != 72 {
			t.Fatalf("received %d bytes", k)
		}
		in.Reset()
		var stack [8]byte
		Send(a, stack[:], 0)
		Recv(b, buf)
		EpollPoll(ep, events[:])
	})
	if n != 0 {
		t.Errorf("%v allocations per round, want 0", n)
	}
}

func TestEpollPoll(t *testing.T) {
	a, b := pair(t)
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ep)
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, b, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 7}); err != nil {
		t.Fatal(err)
	}
	var events [4]unix.EpollEvent
	if n := EpollPoll(ep, events[:]); n != 0 {
		t.Fatalf("EpollPoll of nothing = %d", n)
	}
	Send(a, []byte("x"), 0)
	if n := EpollPoll(ep, events[:]); n != 1 || events[0].Fd != 7 {
		t.Fatalf("EpollPoll = %d, data %d; want 1, 7", n, events[0].Fd)
	}
	if n := EpollPoll(ep, nil); n != 0 {
		t.Fatalf("EpollPoll into nothing = %d", n)
	}
	if n := EpollPoll(-1, events[:]); n != 0 {
		t.Fatalf("EpollPoll of no set = %d", n)
	}
}
