//go:build linux

package main

import (
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestPair pings between two machines, of which VM_HOST says which one this is: our server with our
// client and a C client, then a C server.
func TestPair(t *testing.T) {
	if os.Getenv("VM_NET") != "nic" {
		t.Skip("not one of two machines; make test-rxe has them")
	}
	const host = "10.9.0.1"
	sys, _, _ := deviceSystem(t)
	flags := []string{"-a", host, "-S", "9000", "-V"}
	if os.Getenv("VM_HOST") == "1" {
		other := meet(t, net.JoinHostPort(host, "7190"), true)
		_, errs, wait := server(t, sys, append(flags, "-P")...)
		other.step()
		other.step() // the clients have ended
		if wait(); strings.Count(errs.String(), "server DISCONNECT EVENT...\n") != 2 {
			t.Errorf("not two clients:\n%s", errs)
		}
		cmd, _, stderr := c(t, append(flags, "-s")...)
		other.step()
		if err := ended(cmd, stderr); err != nil {
			t.Errorf("C server: %v\n%s", err, stderr)
		}
		other.step()
		return
	}
	flags = append(flags, "-C", "10")
	other := meet(t, net.JoinHostPort(host, "7190"), false)
	other.step()
	if status, _, stderr := client(t, sys, flags...); status != 0 {
		t.Errorf("client: %d\n%s", status, stderr)
	}
	cmd, _, stderr := c(t, append(flags, "-c")...)
	if err := ended(cmd, stderr); err != nil {
		t.Errorf("C client: %v\n%s", err, stderr)
	}
	other.step()
	other.step()
	if status, _, stderr := retry(t, sys, flags...); status != 0 {
		t.Errorf("client of C: %d\n%s", status, stderr)
	}
	other.step()
}

// machine is a connection to the test on the other machine.
type machine struct {
	t    *testing.T
	conn net.Conn
}

// meet connects the tests on two machines, of which one may still be starting.
func meet(t *testing.T, addr string, listen bool) *machine {
	t.Helper()
	end := time.Now().Add(2 * eventTimeout)
	var conn net.Conn
	var err error
	if listen {
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			l.(*net.TCPListener).SetDeadline(end)
			conn, err = l.Accept()
			l.Close()
		}
	} else {
		for conn, err = net.Dial("tcp", addr); err != nil && time.Now().Before(end); conn, err = net.Dial("tcp", addr) {
			runtime.Gosched()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(4 * eventTimeout))
	return &machine{t, conn}
}

// step waits until both tests have reached the same place.
func (m *machine) step() {
	m.t.Helper()
	if _, err := m.conn.Write([]byte{1}); err != nil {
		m.t.Fatal(err)
	}
	if _, err := io.ReadFull(m.conn, make([]byte, 1)); err != nil {
		m.t.Fatal(err)
	}
}
