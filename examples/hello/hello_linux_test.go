package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
)

// program is the example, in Go or C.
type program struct{ path, language string }

func TestHello(t *testing.T) {
	if race.Enabled {
		t.Skip("the programs are built without the race detector")
	}
	ours := program{filepath.Join(t.TempDir(), "hello"), "Go"}
	build(t, "go", "build", "-o", ours.path, ".")
	t.Run("Go", func(t *testing.T) { greeted(t, ours, ours) })
	t.Run("C", func(t *testing.T) {
		for _, prefix := range installations(t) {
			theirs := program{filepath.Join(t.TempDir(), "hello"), "C"}
			lib := filepath.Join(prefix, "lib")
			build(t, "gcc", "-std=c11", "-Wall", "-Werror", "-I", filepath.Join(prefix, "include"), "c/hello.c",
				"-o", theirs.path, "-L"+lib, "-Wl,-rpath,"+lib, "-lucp", "-lucs")
			t.Run(prefix, func(t *testing.T) {
				greeted(t, theirs, theirs)
				greeted(t, theirs, ours)
				greeted(t, ours, theirs)
			})
		}
	})
}

// installations are the prefixes of C UCX: the distribution's, and those of CPEERS.
func installations(t *testing.T) (list []string) {
	t.Helper()
	for _, prefix := range append([]string{"/usr"}, filepath.SplitList(os.Getenv("CPEERS"))...) {
		if _, err := os.Stat(filepath.Join(prefix, "include/ucp/api/ucp.h")); err == nil {
			list = append(list, prefix)
		}
	}
	if len(list) == 0 {
		needtest.Tool(t, "a C UCX: /usr/include/ucp/api/ucp.h of libucx-dev, or CPEERS")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		needtest.Tool(t, "gcc, to build the program in C")
	}
	return list
}

func build(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
}

// greeted runs a server and a client and waits until both exit.
func greeted(t *testing.T, server, client program) {
	t.Helper()
	s := exec.CommandContext(t.Context(), server.path, "127.0.0.1", "0")
	s.Stderr = os.Stderr
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	var port string
	if _, err := fmt.Fscanf(bufio.NewReader(out), "port %s\n", &port); err != nil {
		s.Process.Kill()
		t.Fatal(err, s.Wait())
	}
	got, err := exec.CommandContext(t.Context(), client.path, "127.0.0.1", port, "gopher").CombinedOutput()
	if want := "hello gopher, this is " + server.language + "\n"; string(got) != want || err != nil {
		s.Process.Kill()
		t.Errorf("%s client: %q, %v, want %q", client.language, got, err, want)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("%s server: %v", server.language, err)
	}
}
