//go:build linux

package interop

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestFreePort leaves few ports to choose from and occupies all but one of them on the second
// device, as earlier connections do for a minute after their end. A server that listens at every
// address can only get the remaining one.
func TestFreePort(t *testing.T) {
	p := newPlace()
	defer p.close()
	if p.eth != firstDevice {
		needtest.Right(t, "a network namespace of our own: "+p.why)
	}
	const first, last, free = 40000, 40007, 40003
	var err error
	var taken []net.Listener
	defer func() {
		for _, l := range taken {
			l.Close()
		}
	}()
	p.do(func() {
		err = os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", fmt.Appendf(nil, "%d %d\n", first, last), 0)
		for port := first; port <= last && err == nil; port++ {
			if port == free {
				continue
			}
			var l net.Listener
			if l, err = net.Listen("tcp", fmt.Sprintf("198.18.0.1:%d", port)); err == nil {
				taken = append(taken, l)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		port, err := p.freePort()
		if err != nil {
			t.Fatal(err)
		}
		var l net.Listener
		p.do(func() { l, err = net.Listen("tcp", ":"+port) })
		if err != nil {
			t.Fatalf("port %s is said to be free: %v", port, err)
		}
		l.Close()
	}
}
