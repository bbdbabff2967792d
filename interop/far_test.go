//go:build linux

package interop

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

// A place may be on another machine. There a test serves it: it starts what it is asked
// to, with a connection for standard input and output. Here a relay stands in for each
// such program, which is the test program itself. When the relay ends so does the
// program, and the other way round.

// farPort is where the other machine waits for programs to start.
const farPort = "4791" // of TCP: that of RoCE is of UDP

// farProgram is a program to start; none is the end of all.
type farProgram struct{ Args, Env []string }

// The environment of a relay says where to go, and what to start there.
const relayTo, relayProgram = "UCX_RELAY_TO", "UCX_RELAY_PROGRAM"

// newFarPlace is the place on the machine at an address.
func newFarPlace(host string) *place {
	p := onMachine()
	p.far = net.JoinHostPort(host, farPort)
	return p
}

// relayed makes a command one that runs on the other machine.
func (p *place) relayed(cmd *exec.Cmd) error {
	if p.far == "" {
		return nil
	}
	text, err := json.Marshal(farProgram{cmd.Args, cmd.Env})
	if err != nil {
		return err
	}
	if cmd.Path, err = os.Executable(); err != nil {
		return err
	}
	cmd.Args = cmd.Args[:1]
	cmd.Env = []string{siegeRole + "=relay", relayTo + "=" + p.far, relayProgram + "=" + string(text)}
	return nil
}

// relay is the process that stands in for a program on another machine.
func relay() error {
	c, err := dialFar(os.Getenv(relayTo), os.Getenv(relayProgram))
	if err != nil {
		return err
	}
	go io.Copy(c, os.Stdin) // whose end is nobody's
	_, err = io.Copy(os.Stdout, c)
	return err
}

// dialFar connects to the other machine, which may still be starting, and says what to
// start.
func dialFar(to, program string) (*net.TCPConn, error) {
	for end := time.Now().Add(replyLimit); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", to, exitLimit)
		if err == nil {
			_, err = fmt.Fprintln(c, program)
			return c.(*net.TCPConn), err
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}

// endFar tells the other machine that nothing more is to be started.
func (p *place) endFar(t *testing.T) {
	c, err := dialFar(p.far, "{}")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// serveFar starts what the other machine asks for, until it has nothing more.
func serveFar(t *testing.T, host string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, farPort))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	running := make(chan error)
	count := 0
	for {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		line, err := in.ReadBytes('\n')
		var program farProgram
		if err := errors.Join(err, json.Unmarshal(line, &program)); err != nil {
			t.Fatal(err)
		}
		if program.Args == nil {
			c.Close()
			break
		}
		count++
		go func() { running <- farRun(program, in, c.(*net.TCPConn)) }()
	}
	for range count {
		if err := <-running; err != nil {
			t.Error(err)
		}
	}
}

// farRun runs a program with a connection until one of them ends; an error is one of the
// program, unless it was the connection.
func farRun(program farProgram, in *bufio.Reader, c *net.TCPConn) error {
	defer c.Close()
	cmd := exec.Command(program.Args[0], program.Args[1:]...)
	cmd.Env = program.Env
	cmd.Stdout, cmd.Stderr = c, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var given atomic.Bool // up by the other machine
	go func() {
		io.Copy(stdin, in)
		given.Store(true)
		cmd.Process.Kill()
	}()
	if err = cmd.Wait(); err == nil || given.Load() {
		return nil
	}
	return fmt.Errorf("%s: %w", cmd.Path, err)
}

// opposite is the place of the other side.
func (p *place) opposite() *place {
	if p.other != nil {
		return p.other
	}
	return p
}
