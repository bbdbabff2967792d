package log

import "runtime"

// stackText stands above the stacks of SetTrigger.
const stackText = "the goroutines at the message above, as UCX_LOG_LEVEL_TRIGGER asks:"

// maxStacks bounds what is printed of them, in bytes.
const maxStacks = 1 << 20

// SetTrigger makes messages of the level, and worse ones, print the stacks of all goroutines behind
// themselves, to where they go; a message that is not printed has no stacks either. C UCX ends the
// process there: nothing here does. LevelFatal, which no message has, is the default. Any goroutine
// may call it. While stacks are taken all goroutines stand still.
func SetTrigger(l Level) { change(func(s *state) { s.trigger = min(l, LevelPoll) }) }

// stacks returns those of all goroutines, or the beginning of them.
func stacks() string {
	for n := 64 << 10; ; n *= 2 {
		buf := make([]byte, n)
		if got := runtime.Stack(buf, true); got < n || n >= maxStacks {
			return string(buf[:got])
		}
	}
}
