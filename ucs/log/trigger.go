package log

import "runtime"

// stackText is the heading of the goroutine stacks that are printed because of SetTrigger.
const stackText = "goroutine stacks for the message above (UCX_LOG_LEVEL_TRIGGER):"

// maxStacks bounds the size of the printed stacks, in bytes.
const maxStacks = 1 << 20

// SetTrigger makes the library log the stacks of all goroutines after each message of the level or
// of a more severe level, to the same logger, if the message itself is printed. Unlike C UCX, the
// library does not end the process then. The default is LevelFatal, which no message has. Any
// goroutine may call it. All goroutines stop while the stacks are collected.
func SetTrigger(l Level) { change(func(s *state) { s.trigger = min(l, LevelPoll) }) }

// stacks returns the stacks of all goroutines, cut at about maxStacks bytes.
func stacks() string {
	for n := 64 << 10; ; n *= 2 {
		buf := make([]byte, n)
		if got := runtime.Stack(buf, true); got < n || n >= maxStacks {
			return string(buf[:got])
		}
	}
}
