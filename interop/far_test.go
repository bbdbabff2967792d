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

// A place may be on another machine. A test there starts the programs, with a connection for
// standard input and output. On this machine, a relay stands in for each such program; it is this
// test program itself. When the relay exits, so does the program, and the other way round.

// farPort is the port at which the other machine waits for programs to start.
const farPort = "4791" // of TCP; RoCE has the number in UDP

// farProgram is a program to start. One without arguments ends the other test.
type farProgram struct{ Args, Env []string }

// The environment of a relay names the other machine, and the program to start there.
const relayTo, relayProgram = "UCX_RELAY_TO", "UCX_RELAY_PROGRAM"

// newFarPlace returns the place on the machine at an address.
func newFarPlace(host string) *place {
	p := onMachine()
	p.far = net.JoinHostPort(host, farPort)
	return p
}

// relayed changes a command to run on the other machine.
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
	go io.Copy(c, os.Stdin) // does not end with the connection
	_, err = io.Copy(os.Stdout, c)
	return err
}

// dialFar connects to the other machine, which may still be booting, and sends the program to
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

// endFar tells the other machine that no more programs will be started.
func (p *place) endFar(t *testing.T) {
	c, err := dialFar(p.far, "{}")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// serveFar starts programs for the other machine until that one sends the end.
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

// farRun runs a program with a connection until one of them ends. It returns an error of the
// program, unless the connection ended first.
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
	var given atomic.Bool // the other machine has ended the connection
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

// opposite returns the place of the other side.
func (p *place) opposite() *place {
	if p.other != nil {
		return p.other
	}
	return p
}
