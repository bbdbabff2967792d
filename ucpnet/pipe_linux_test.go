package ucpnet

import (
	"io"
	"testing"

	"github.com/ucx-go/ucx/ucs/log/logtest"
)

// TestWithinIsQuiet checks that connections within a worker, by Pipe or by Dial to a listener of
// the same worker, cause no warning about the error mode, as the program cannot set it.
func TestWithinIsQuiet(t *testing.T) {
	logtest.Watch(t)
	for _, way := range ways[:2] {
		t.Run(way.name, func(t *testing.T) {
			a, b := way.ends(t)
			buf := make([]byte, 5)
			if _, err := a.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(b, buf); err != nil || string(buf) != "hello" {
				t.Fatalf("%q, %v", buf, err)
			}
		})
	}
}
