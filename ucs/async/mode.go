package async

import "strconv"

// Mode selects where the functions of a context are called. The numbers are those of
// ucs_async_mode_t.
type Mode uint8

// Modes. The thread modes do the same in Go.
const (
	ModeSignal         Mode = 0 // from a signal handler: not supported in Go
	ModeThread         Mode = 1 // a goroutine
	ModeThreadSpinlock Mode = 1
	ModeThreadMutex    Mode = 2
	ModePoll           Mode = 3 // the caller of Poll
)

// String returns C's name of the mode.
func (m Mode) String() string {
	switch m {
	case ModeSignal:
		return "signal"
	case ModeThreadSpinlock:
		return "thread_spinlock"
	case ModeThreadMutex:
		return "thread_mutex"
	case ModePoll:
		return "poll"
	}
	return "async mode " + strconv.Itoa(int(m))
}
