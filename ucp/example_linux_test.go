package ucp_test

import (
	"fmt"
	"log"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucp"
)

// A program with a poll loop of its own sleeps on the worker's descriptor: it
// progresses until nothing happens, arms, and polls only if that succeeded.
func ExampleWorker_Arm() {
	ctx, w, _ := openSelf(ucp.FeatureTag | ucp.FeatureWakeup)
	defer ctx.Close()
	defer w.Close()

	fd, err := w.EventFD()
	if err != nil {
		log.Fatal(err)
	}
	for {
		for w.Progress() > 0 {
		}
		if w.Arm() == nil {
			break
		}
	}
	go w.Signal() // any goroutine may wake the loop
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(set, -1)
		if err == unix.EINTR {
			continue
		}
		fmt.Println("ready:", n, err)
		break
	}
	// Output: ready: 1 <nil>
}
