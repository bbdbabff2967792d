package async_test

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs/async"
	"github.com/ucx-go/ucx/ucs/event"
)

// A timer calls from a goroutine of the context. While its owner works on what both use
// he blocks it.
func ExampleContext() {
	ctx, err := async.New(async.ModeThread)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ctx.Close()
	expired := make(chan struct{}, 1)
	id, err := ctx.AddTimer(time.Millisecond, func(int, event.Events) {
		select {
		case expired <- struct{}{}:
		default:
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-expired
	ctx.Block()
	fmt.Println("blocked:", ctx.Blocked())
	if err := ctx.Unblock(); err != nil { // calls what was missed
		fmt.Println(err)
	}
	fmt.Println("removed:", ctx.RemoveHandler(id, true) == nil)
	// Output:
	// blocked: true
	// removed: true
}
