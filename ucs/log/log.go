package log

import (
	"os"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// state is what the process's logger is; it is replaced as a whole.
type state struct {
	level  Level   // the highest that the default logger prints
	user   *Logger // of SetLogger or SetHandler, nil for the default
	stderr *writer // the default

	trigger Level  // SetTrigger's
	files   string // SetFileFilter's, empty for all
}

var (
	setMu   sync.Mutex // serialises changes of current
	current atomic.Pointer[state]
)

func init() {
	level := LevelWarn
	if s, ok := os.LookupEnv("UCX_LOG_LEVEL"); ok {
		// A wrong name is reported by whoever reads the configuration.
		_ = level.ParseConfig(s)
	}
	current.Store(&state{level: level, stderr: newWriter(stderr())})
}

// SetLevel sets what the default logger prints. It has no effect on loggers given to
// SetLogger, SetHandler or a context: their levels are changed by zap.AtomicLevel and
// slog.LevelVar. Any goroutine may call it at any time.
func SetLevel(l Level) { change(func(s *state) { s.level = min(l, LevelPoll) }) }

// SetLogger makes the library log to l, whose core decides what is printed; nil restores
// the default. It returns the logger set before, nil for the default. Any goroutine may
// call it.
func SetLogger(l *zap.Logger) (previous *zap.Logger) {
	change(func(s *state) {
		if s.user != nil {
			previous = s.user.out
		}
		s.user = New(l)
	})
	return previous
}

func change(f func(*state)) {
	setMu.Lock()
	defer setMu.Unlock()
	s := *current.Load()
	f(&s)
	current.Store(&s)
}

// Enabled reports whether the process's logger would print a message of level l.
func Enabled(l Level) bool { return (*Logger)(nil).Enabled(l) }

// Write logs a message to the process's logger.
func Write(l Level, msg string, fields ...zap.Field) { (*Logger)(nil).Write(l, msg, fields...) }

// Print is Logger.Print of the process's logger.
func Print(msg string, fields ...zap.Field) { (*Logger)(nil).Print(msg, fields...) }

// Error logs that an operation or object cannot continue.
func Error(msg string, fields ...zap.Field) { Write(LevelError, msg, fields...) }

// Warn logs an unexpected event that stops nothing.
func Warn(msg string, fields ...zap.Field) { Write(LevelWarn, msg, fields...) }

// WarnOnce is Logger.WarnOnce of the process's logger.
func WarnOnce(key, msg string, fields ...zap.Field) { (*Logger)(nil).WarnOnce(key, msg, fields...) }

// Diag logs an unexpected event that is probably a matter of configuration.
func Diag(msg string, fields ...zap.Field) { Write(LevelDiag, msg, fields...) }

// Info logs a decision.
func Info(msg string, fields ...zap.Field) { Write(LevelInfo, msg, fields...) }

// Debug logs the life of an object.
func Debug(msg string, fields ...zap.Field) { Write(LevelDebug, msg, fields...) }

// Trace logs a step of an operation. Test Enabled first where it matters.
func Trace(msg string, fields ...zap.Field) { Write(LevelTrace, msg, fields...) }
