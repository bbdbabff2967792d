//go:build linux

package verbs_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestFDWhileClosing asks for the descriptor of a channel while another goroutine closes it. The
// result must be the descriptor or -1.
func TestFDWhileClosing(t *testing.T) {
	ucttest.NoLeaks(t)
	c, err := verbs.NewContext(verbstest.New().Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ch, err := c.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	number := ch.FD()
	closed := make(chan error)
	go func() { closed <- ch.Close() }()
	if fd := ch.FD(); fd != number && fd != -1 {
		t.Errorf("descriptor %d, it was %d", fd, number)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if fd := ch.FD(); fd != -1 {
		t.Errorf("a closed channel has descriptor %d", fd)
	}
	if err := ch.Close(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("closed twice: %v", err)
	}
}

// TestTryAllocatesNothing checks that trying for events allocates nothing, since programs that poll
// do it often.
func TestTryAllocatesNothing(t *testing.T) {
	c, err := verbs.NewContext(verbstest.New().Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ch, err := c.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, ok, err := c.TryAsyncEvent(); ok || err != nil {
			t.Error(ok, err)
		}
		if _, ok, err := ch.TryEvent(); ok || err != nil {
			t.Error(ok, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
