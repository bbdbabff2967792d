package uct

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// counter is a CompletionOwner that counts.
type counter struct {
	Completion
	fired int
	again int // operations to start again when it fires
}

func (c *counter) Completed(got *Completion) {
	if got != &c.Completion {
		panic("told about another completion")
	}
	c.fired++
	if c.again > 0 {
		c.Count, c.again = c.again, 0
	}
}

func newCounter(n int) *counter {
	c := &counter{Completion: Completion{Count: n}}
	c.Owner = c
	return c
}

func TestCompletion(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, test := range []struct {
		name string
		errs []error
		want error
	}{
		{"one", []error{nil}, nil},
		{"many", []error{nil, nil, nil, nil}, nil},
		{"error", []error{first}, first},
		{"first of two errors", []error{nil, first, nil, second, nil}, first},
		{"error at the end", []error{nil, nil, second}, second},
	} {
		c := newCounter(len(test.errs))
		for i, err := range test.errs {
			if c.fired != 0 {
				t.Errorf("%s: told after %d operations", test.name, i)
			}
			c.Done(err)
		}
		if c.fired != 1 || c.Count != 0 || c.Err != test.want {
			t.Errorf("%s: told %d times, count %d, error %v", test.name, c.fired, c.Count, c.Err)
		}
	}
}

// TestCompletionTakenBack: the count is set before operations start. The caller takes back those
// that completed at once, possibly after others have completed.
func TestCompletionTakenBack(t *testing.T) {
	c := newCounter(3)
	c.Done(nil)
	c.Done(ucs.ErrIO)
	if c.fired != 0 {
		t.Fatal("told with an operation left")
	}
	c.Done(nil) // by the caller, for an operation that returned nil
	if c.fired != 1 || c.Err != ucs.ErrIO {
		t.Errorf("told %d times, error %v", c.fired, c.Err)
	}
}

func TestCompletionFail(t *testing.T) {
	c := newCounter(1)
	c.Fail(ucs.ErrTimedOut)
	c.Fail(ucs.ErrIO)
	c.Done(ucs.ErrBusy)
	if c.fired != 1 || c.Err != ucs.ErrTimedOut {
		t.Errorf("told %d times, error %v", c.fired, c.Err)
	}
}

// TestCompletionStartedAgain: the owner may start new operations with a completion when it fires.
func TestCompletionStartedAgain(t *testing.T) {
	c := newCounter(1)
	c.again = 2
	c.Done(nil)
	c.Done(nil)
	if c.fired != 1 {
		t.Fatalf("told %d times with an operation left", c.fired)
	}
	c.Done(nil)
	if c.fired != 2 {
		t.Errorf("told %d times, want 2", c.fired)
	}
}
