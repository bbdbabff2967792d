//go:build !simulate

package event_test

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/event"
)

// reader reads from a pipe when it is notified that data is available.
type reader struct{ fd int }

func (r *reader) HandleEvent(ev event.Events) {
	var b [16]byte
	n, err := unix.Read(r.fd, b[:])
	fmt.Printf("%s %v\n", b[:max(n, 0)], err)
}

// A Set notifies handlers of ready descriptors during Poll. Between polls any other poller can wait
// for the set's own descriptor.
func ExampleSet() {
	set, err := event.NewSet()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	if err := set.Add(fd, event.Read, &reader{fd}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("events:", set.Poll())
	fmt.Fprint(w, "hello")
	fmt.Println("events:", set.Poll())
	// Output:
	// events: 0
	// hello <nil>
	// events: 1
}

// Timers are events of a set too: their functions run during its Poll.
func ExampleTimers() {
	set, err := event.NewSet()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer set.Close()
	timers := event.NewTimers(set)
	defer timers.Close()

	done := false
	if _, err := timers.After(time.Millisecond, func() { done = true }); err != nil {
		fmt.Println(err)
		return
	}
	for !done {
		// A program would sleep here until set.FD() is readable.
		set.Poll()
	}
	fmt.Println("expired")
	// Output: expired
}
