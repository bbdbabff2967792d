package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// show makes calls of each kind.
func (c *client) show(ctx context.Context, callers, calls int) error {
	start := time.Now()
	if err := c.many(ctx, callers, calls); err != nil {
		return err
	}
	elapsed := time.Since(start)
	fmt.Printf("%d goroutines have made %d calls each in %v: %.0f a second\n",
		callers, calls, elapsed.Round(time.Millisecond), float64(callers*calls)/elapsed.Seconds())

	result, err := c.call(ctx, "fill", binary.LittleEndian.AppendUint64(nil, longest))
	if err != nil {
		return err
	}
	if k := slices.IndexFunc(result, func(b byte) bool { return b != filler }); k >= 0 || len(result) != longest {
		return fmt.Errorf("fill: %d bytes, the first wrong one is number %d", len(result), k)
	}
	fmt.Printf("fill has returned %d MiB, over %s\n", len(result)>>20, c.ways())

	short, stop := context.WithTimeout(ctx, time.Millisecond)
	defer stop()
	_, err = c.call(short, "wait", nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("wait: %v, want %w", err, context.DeadlineExceeded)
	}
	fmt.Println("wait has ended at its deadline")

	_, err = c.call(ctx, "sing", nil)
	if err == nil {
		return errors.New("the method sing, which does not exist, was called")
	}
	fmt.Println("sing:", err)
	return nil
}

// many calls the method upper from many goroutines, and checks the results.
func (c *client) many(ctx context.Context, callers, calls int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error)
	for k := range callers {
		go func() { ended <- c.repeat(ctx, k, calls) }()
	}
	var first error
	for range callers {
		if err := <-ended; err != nil && first == nil {
			first = err
			stop() // the others need not go on
		}
	}
	return first
}

func (c *client) repeat(ctx context.Context, caller, calls int) error {
	for i := range calls {
		text := fmt.Sprintf("call %d of goroutine %d", i, caller)
		result, err := c.call(ctx, "upper", []byte(text))
		if err != nil {
			return err
		}
		if string(result) != strings.ToUpper(text) {
			return fmt.Errorf("upper of %q: %q", text, result)
		}
	}
	return nil
}

// ways returns the names of the transports to the server.
func (c *client) ways() string {
	var names []string
	for _, t := range c.ep.Attr().Transports {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
