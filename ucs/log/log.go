package log

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// state is what the logging functions use; it is replaced as a whole.
type state struct {
	level  Level       // the highest that may be printed
	user   *zap.Logger // as given to SetLogger, nil for the default
	logger *zap.Logger // what is written to
}

var (
	setMu   sync.Mutex // serialises changes of current
	current atomic.Pointer[state]
)

func init() {
	level := LevelFatal
	if s, ok := os.LookupEnv("UCX_LOG_LEVEL"); ok {
		// A wrong name is reported by whoever reads the configuration.
		_ = level.ParseConfig(s)
	}
	current.Store(&state{level: level, logger: stderrLogger(zapcore.Lock(os.Stderr))})
}

// stderrLogger is the default logger. It leaves the choice of levels to this
// package.
func stderrLogger(w zapcore.WriteSyncer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = encodeTime
	enc.EncodeLevel = encodeLevel
	enc.EncodeDuration = zapcore.StringDurationEncoder
	all := zap.LevelEnablerFunc(func(zapcore.Level) bool { return true })
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), w, all)).Named("ucx")
}

// encodeTime prints seconds since 1970 with microseconds, as C UCX does: easy to
// subtract, and to merge with the output of a C process.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(fmt.Sprintf("[%d.%06d]", t.Unix(), t.Nanosecond()/1000))
}

// SetLevel sets what the default logger prints. It has no effect on a logger
// given to SetLogger, now or later. Any goroutine may call it.
func SetLevel(l Level) { change(func(s *state) { s.level = min(l, LevelPoll) }) }

// SetLogger makes the library log to l, which decides by its core what is
// printed; nil restores the default. It returns the logger set before, nil for
// the default. Any goroutine may call it.
func SetLogger(l *zap.Logger) (previous *zap.Logger) {
	change(func(s *state) {
		previous = s.user
		s.user = l
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

// Enabled reports whether a message of level l would be printed.
func Enabled(l Level) bool {
	s := current.Load()
	if s.user != nil {
		return s.user.Core().Enabled(l.Zap())
	}
	return l <= s.level
}

// Write logs a message.
func Write(l Level, msg string, fields ...zap.Field) {
	s := current.Load()
	if s.user != nil {
		s.user.Log(l.Zap(), msg, fields...)
	} else if l <= s.level {
		s.logger.Log(l.Zap(), msg, fields...)
	}
}

// Print writes what the user asked for by a setting of its own, whatever the
// level: to the user's logger, or to the default one.
func Print(msg string, fields ...zap.Field) {
	s := current.Load()
	if s.user != nil {
		s.user.Info(msg, fields...)
		return
	}
	s.logger.Info(msg, fields...)
}

// Error logs that something cannot go on.
func Error(msg string, fields ...zap.Field) { Write(LevelError, msg, fields...) }

// Warn logs something odd that does not stop anything.
func Warn(msg string, fields ...zap.Field) { Write(LevelWarn, msg, fields...) }

// Diag logs something odd that is probably a matter of the machine's set-up.
func Diag(msg string, fields ...zap.Field) { Write(LevelDiag, msg, fields...) }

// Info logs a decision.
func Info(msg string, fields ...zap.Field) { Write(LevelInfo, msg, fields...) }

// Debug logs the life of an object.
func Debug(msg string, fields ...zap.Field) { Write(LevelDebug, msg, fields...) }

// Trace logs a step of an operation. Test Enabled first where it matters.
func Trace(msg string, fields ...zap.Field) { Write(LevelTrace, msg, fields...) }
