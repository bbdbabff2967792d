package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestDemo runs the program over the loopback device and looks for a row of each
// size.
func TestDemo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "demo")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := exec.Command(program, "-time", "1ms", "tcp/lo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, size := range sizes {
		row := regexp.MustCompile(`(?m)^ *` + sizeName(size) + ` +[\d.]+ µs +[\d.]+ MiB/s +\d+ msg/s$`)
		if !row.Match(out) {
			t.Errorf("no row for %s in\n%s", sizeName(size), out)
		}
	}
}

func TestUnknownPath(t *testing.T) {
	if _, _, err := open("tcp/no-such-device"); err == nil {
		t.Error("a device that does not exist was opened")
	}
	if _, _, err := open("tcp"); err == nil {
		t.Error("a path without device was opened")
	}
}

func TestOrder(t *testing.T) {
	want := order{pattern: stream, size: 4096, count: 7}
	got, err := parseOrder(want.bytes())
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	bad := [][]byte{nil, make([]byte, orderSize+1), order{pattern: finish + 1}.bytes(), order{size: maxSize + 1}.bytes()}
	for _, b := range bad {
		if o, err := parseOrder(b); err == nil {
			t.Errorf("%x was taken for %+v", b, o)
		}
	}
}
