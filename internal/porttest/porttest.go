// Package porttest finds TCP ports for tests of servers that take a port number.
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// Free returns a TCP port that is in use at no address, outside the kernel's range of ephemeral
// ports: a port of that range may become the local port of a connection before the server listens.
func Free(t testing.TB) int {
	t.Helper()
	first, last := 32768, 60999
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(b), &first, &last)
	}
	low, high := last+1, 1<<16-1
	if high-low < 1000 {
		low, high = 1024, max(first-1, 2048)
	}
	var err error
	for range 1000 {
		port := low + rand.IntN(high-low+1)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("no TCP port from %d to %d: %v", low, high, err)
	return 0
}
