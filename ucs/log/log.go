package log

import (
	"os"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// state is the configuration of the process's logger; it is replaced as a whole.
type state struct {
	level  Level   // the most verbose level that the default logger prints
	user   *Logger // the logger of SetLogger or SetHandler, nil for the default logger
	stderr *writer // the default logger, which writes to stderr or a file

	trigger Level  // least severe level that prints goroutine stacks (SetTrigger)
	files   string // pattern of SetFileFilter, empty for all files
}

var (
	setMu   sync.Mutex // serialises changes of current
	current atomic.Pointer[state]
)

func init() {
	level := LevelWarn
	if s, ok := os.LookupEnv("UCX_LOG_LEVEL"); ok {
		// A wrong name is reported when the configuration is read.
		_ = level.ParseConfig(s)
	}
	current.Store(&state{level: level, stderr: newWriter(stderr())})
}

// SetLevel sets the most verbose level that the default logger prints. It has no effect on loggers
// given to SetLogger, SetHandler or a context: their levels are changed with zap.AtomicLevel and
// slog.LevelVar. Any goroutine may call it at any time.
func SetLevel(l Level) { change(func(s *state) { s.level = min(l, LevelPoll) }) }

// SetLogger makes the library log to l, whose core decides what is printed; nil restores the
// default logger. It returns the logger set before, nil for the default. Any goroutine may call
// it.
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

// Print writes output that the user has requested with a setting to the process's logger (see
// Logger.Print).
func Print(msg string, fields ...zap.Field) { (*Logger)(nil).Print(msg, fields...) }

// Error logs that an operation or object cannot continue, to the process's logger.
func Error(msg string, fields ...zap.Field) { Write(LevelError, msg, fields...) }

// Warn logs an unexpected event after which everything continues, to the process's logger.
func Warn(msg string, fields ...zap.Field) { Write(LevelWarn, msg, fields...) }

// WarnOnce logs a warning to the process's logger unless the same text was logged with the same key
// before (see Logger.WarnOnce).
func WarnOnce(key, msg string, fields ...zap.Field) { (*Logger)(nil).WarnOnce(key, msg, fields...) }

// Diag logs an unexpected event that is probably caused by the configuration, to the process's
// logger.
func Diag(msg string, fields ...zap.Field) { Write(LevelDiag, msg, fields...) }

// Info logs a decision of the library, to the process's logger.
func Info(msg string, fields ...zap.Field) { Write(LevelInfo, msg, fields...) }

// Debug logs an event in the life of an object, to the process's logger.
func Debug(msg string, fields ...zap.Field) { Write(LevelDebug, msg, fields...) }

// Trace logs a step of an operation, to the process's logger. Code on a fast path tests Enabled
// first.
func Trace(msg string, fields ...zap.Field) { Write(LevelTrace, msg, fields...) }
