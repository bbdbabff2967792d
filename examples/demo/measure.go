package main

import (
	"context"
	"time"
)

// traffic is two ends of a path that exchange messages as an order says.
type traffic interface {
	// begin tells the other end of the order.
	begin(ctx context.Context, o order) error
	// bounce sends messages one at a time and returns how many that were.
	bounce(ctx context.Context, o order) (int, error)
	// flood sends o.count messages as fast as it can.
	flood(ctx context.Context, o order) error
}

// result is one row of the table.
type result struct {
	size    int
	latency time.Duration // one way
	rate    float64       // messages per second, in a stream
}

var sizes = []int{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 4 << 20}

// fill takes the measurements of each size and prints them.
func (t *table) fill(ctx context.Context, over traffic, duration time.Duration) error {
	// What is slow for the first time alone is not measured.
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

// newMessage fills a message for an order.
func newMessage(o order) []byte {
	b := make([]byte, o.size)
	for i := range b {
		b[i] = byte(i*7 + o.count)
	}
	return b
}
