package sys

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEventfd checks that an eventfd is readable from Count to Reset.
func TestEventfd(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if Readable(fd) {
		t.Error("readable before Count")
	}
	if e := Reset(fd); e != unix.EAGAIN {
		t.Errorf("Reset of a counter that is zero: %v", e)
	}
	for range 2 {
		if e := Count(fd); e != 0 {
			t.Error(e)
		}
	}
	if !Readable(fd) {
		t.Error("not readable after Count")
	}
	if e := Reset(fd); e != 0 || Readable(fd) {
		t.Errorf("Reset: %v; readable: %v", e, Readable(fd))
	}
	if e := Count(-1); e != unix.EBADF {
		t.Errorf("Count of no descriptor: %v", e)
	}
	if !Readable(1 << 20) {
		t.Error("a descriptor that is not open is not reported")
	}
}

// TestSendTo checks that a datagram reaches the socket with the abstract address, and no other.
func TestSendTo(t *testing.T) {
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	from, to := open(), open()
	if err := unix.Bind(to, &unix.SockaddrUnix{}); err != nil { // the kernel chooses an abstract address
		t.Fatal(err)
	}
	at, err := unix.Getsockname(to)
	if err != nil {
		t.Fatal(err)
	}
	name := at.(*unix.SockaddrUnix).Name[1:]
	if e := SendTo(from, []byte("wake"), name); e != 0 {
		t.Fatal(e)
	}
	b := make([]byte, 8)
	if n, e := Recv(to, b); e != 0 || string(b[:n]) != "wake" {
		t.Errorf("received %q, %v", b[:n], e)
	}
	for _, other := range []string{"", name + "x", name[:len(name)-1], strings.Repeat("x", 200)} {
		if e := SendTo(from, []byte("wake"), other); e != unix.ECONNREFUSED {
			t.Errorf("a datagram to %q: %v", other, e)
		}
	}
}
