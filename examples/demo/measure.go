package main

import (
	"context"
	"time"
)

// traffic exchanges messages between the two ends of a path, as an order specifies.
type traffic interface {
	// begin sends the order to the other end.
	begin(ctx context.Context, o order) error
	// bounce sends messages one at a time and returns the number of messages.
	bounce(ctx context.Context, o order) (int, error)
	// flood sends o.count messages as fast as it can.
	flood(ctx context.Context, o order) error
}

// result is one row of the table.
type result struct {
	size    int
	latency time.Duration // time of a message in one direction
	rate    float64       // messages per second, in a stream
}

var sizes = []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 4 << 20}

// fill measures each size and prints the results.
func (t *table) fill(ctx context.Context, over traffic, duration time.Duration) error {
	// The first exchange, which is slower, is not measured.
	warm := order{pattern: pingPong, size: sizes[0]}
	if _, err := repeat(ctx, over, warm, duration/10, over.bounce); err != nil {
		return err
	}
	for _, size := range sizes {
		t.busy(size)
		latency, err := repeat(ctx, over, order{pattern: pingPong, size: size}, duration, over.bounce)
		if err != nil {
			return err
		}
		each, err := repeat(ctx, over, order{pattern: stream, size: size}, duration, func(ctx context.Context, o order) (int, error) {
			return o.count, over.flood(ctx, o)
		})
		if err != nil {
			return err
		}
		t.row(result{size, latency, float64(time.Second) / float64(max(each, 1))})
	}
	return nil
}

// repeat runs an exchange with more and more messages until it takes long
// enough, and returns the time for one message.
func repeat(ctx context.Context, over traffic, o order, duration time.Duration, run func(context.Context, order) (int, error)) (time.Duration, error) {
	for o.count = 4; ; o.count *= 2 {
		if err := over.begin(ctx, o); err != nil {
			return 0, err
		}
		start := time.Now()
		messages, err := run(ctx, o)
		if err != nil {
			return 0, err
		}
		if elapsed := time.Since(start); elapsed >= duration {
			return elapsed / time.Duration(messages), nil
		}
	}
}

// newMessage returns a message of the size in an order, filled with a pattern.
func newMessage(o order) []byte {
	b := make([]byte, o.size)
	for i := range b {
		b[i] = byte(i*7 + o.count)
	}
	return b
}
