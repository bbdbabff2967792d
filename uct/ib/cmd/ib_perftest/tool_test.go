//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/porttest"
	"github.com/ucx-go/ucx/internal/ticks"
)

// asTool names the variable that makes the test binary run as the tool, in a process.
const asTool = "IB_PERFTEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	ticks.TrustCounter()
	os.Exit(m.Run())
}

// tool is a side of a test in its own process: perftest's or ours.
type tool struct {
	*exec.Cmd
	out, errs bytes.Buffer
}

// newTool prepares a process. args begin with the name of the test.
func newTool(ctx context.Context, ours bool, args string) *tool {
	t := &tool{}
	words := strings.Fields(args)
	if ours {
		t.Cmd = exec.CommandContext(ctx, os.Args[0], words...)
		t.Env = append(os.Environ(), asTool+"=1")
	} else {
		t.Cmd = exec.CommandContext(ctx, "ib_"+words[0], words[1:]...)
	}
	t.Stdout, t.Stderr = &t.out, &t.errs
	return t
}

func (t *tool) String() string {
	return fmt.Sprintf("%s\n%s%s", strings.Join(t.Args, " "), t.out.String(), t.errs.String())
}

// listening waits until a process listens on a port. It does not connect, because the tools accept
// one connection.
func listening(t testing.TB, port int) {
	t.Helper()
	want := fmt.Sprintf(":%04X ", port)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			text, _ := os.ReadFile(file)
			for _, line := range strings.Split(string(text), "\n") {
				// local address, remote address, state; 0A is LISTEN.
				if f := strings.Fields(line); len(f) > 3 && strings.Contains(f[1]+" ", want) && f[3] == "0A" {
					return
				}
			}
		}
	}
	t.Fatalf("nobody listens at port %d", port)
}

// processes runs both sides of a test as processes.
func processes(t testing.TB, serverOurs, clientOurs bool, args string) (server, client *tool, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	port := porttest.Free(t)
	args += " -p " + strconv.Itoa(port)
	server, client = newTool(ctx, serverOurs, args), newTool(ctx, clientOurs, args+" 127.0.0.1")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	listening(t, port)
	err = client.Run()
	if err != nil {
		server.Process.Kill()
	}
	if e := server.Wait(); err == nil {
		err = e
	}
	return server, client, err
}
