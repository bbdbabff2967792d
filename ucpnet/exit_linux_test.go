package ucpnet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
)

// lastVar is the environment variable that makes the test binary a process that connects to an
// address, or listens for one client, then writes, closes and exits: "dial ADDRESS SIZE HOW" or
// "listen - SIZE HOW".
const lastVar = "LAST_WORDS"

func TestMain(m *testing.M) {
	if s := os.Getenv(lastVar); s != "" {
		if err := lastWords(strings.Fields(s)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func lastWords(args []string) error {
	briefly = patient // on a busy machine a thread may get no processor for 100 ms
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	var c io.WriteCloser
	if args[0] == "dial" {
		if c, err = Dial("ucp", args[1]); err != nil {
			return err
		}
	} else {
		l, err := Listen("ucp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		if c, err = l.Accept(); err != nil {
			return err
		}
	}
	if _, err := c.Write(words(size)); err != nil {
		return err
	}
	if err := c.Close(); err != nil || args[3] == "exit" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	return Shutdown(ctx)
}

func words(n int) []byte { return bytes.Repeat([]byte("0123456789abcde\n"), n/16+1)[:n] }

// TestLastWords checks that what a process has written before Close is read, even if the process
// exits right after Close.
func TestLastWords(t *testing.T) {
	rounds := 4
	switch {
	case needtest.Full:
		rounds = 40
	case race.Enabled || testing.Short():
		rounds = 1
	}
	if n, err := strconv.Atoi(os.Getenv(lastVar + "_ROUNDS")); err == nil {
		rounds = n
	}
	for _, tls := range []string{"tcp", "posix,cma,tcp"} {
		for _, does := range []string{"dial", "listen"} {
			for _, how := range []string{"exit", "shutdown"} {
				t.Run(tls+" "+does+" "+how, func(t *testing.T) {
					t.Setenv("UCX_TLS", tls)
					failed := 0
					for k := range rounds {
						for _, size := range []int{100, 100_000, 1 << 20, 4 << 20} {
							if err := oneReads(t, does, how, size); err != nil {
								failed++
								t.Errorf("round %d: %d bytes: %v", k, size, err)
							}
						}
					}
					if failed > 0 {
						t.Errorf("%d of %d have failed", failed, 4*rounds)
					}
				})
			}
		}
	}
}

// oneReads runs such a process and reads what it writes.
func oneReads(t *testing.T, does, how string, size int) error {
	at := "-"
	var l *Listener
	if does == "dial" {
		l = listening(t, new(Config))
		defer l.Close()
		at = l.Addr().String()
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %s", lastVar, does, at, size, how))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var c *Conn
	if does == "dial" {
		l.SetDeadline(time.Now().Add(patient))
		c, err = l.AcceptUCP()
	} else {
		var n int
		if n, err = fmt.Fscan(out, &at); n == 1 {
			var conn any
			conn, err = Dial("ucp", at)
			c, _ = conn.(*Conn)
		}
	}
	if err != nil {
		cmd.Process.Kill()
		return fmt.Errorf("%w; the process: %v: %s", err, cmd.Wait(), &stderr)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patient))
	got, err := io.ReadAll(c)
	if e := cmd.Wait(); e != nil {
		t.Errorf("the process: %v: %s", e, &stderr)
	}
	if err == nil && !bytes.Equal(got, words(size)) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%d were read: %w", len(got), err)
	}
	return nil
}
