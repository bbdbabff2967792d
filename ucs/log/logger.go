package log

import (
	"log/slog"

	"go.uber.org/zap"
)

// Logger is the logger of a part of the library: each context may have its own. A nil *Logger is
// the process's logger, which SetLogger, SetHandler and SetLevel change. Any goroutine may call
// its methods.
type Logger struct {
	out *zap.Logger
	onceSet
}

// New returns a Logger that writes to l, whose core decides what is printed. It returns nil
// for a nil l.
func New(l *zap.Logger) *Logger {
	if l == nil {
		return nil
	}
	return &Logger{out: l}
}

// FromSlog returns a Logger that writes to l, whose handler decides what is printed. It
// returns nil for a nil l.
func FromSlog(l *slog.Logger) *Logger {
	if l == nil {
		return nil
	}
	return New(zap.New(NewCore(l.Handler())))
}

// Enabled reports whether a message of a level would be printed.
func (l *Logger) Enabled(level Level) bool {
	if l == nil {
		s := current.Load()
		if s.user == nil {
			return level <= s.level
		}
		l = s.user
	}
	return l.out.Core().Enabled(level.Zap())
}

// Write logs a message.
func (l *Logger) Write(level Level, msg string, fields ...zap.Field) {
	if l == nil {
		s := current.Load()
		if s.user == nil {
			if level <= s.level && s.wanted() {
				s.stderr.at(level).Log(level.Zap(), msg, fields...)
				if level <= s.trigger {
					s.stderr.plain.Info(stackText + "\n" + stacks())
				}
			}
			return
		}
		l = s.user
	}
	l.out.Log(level.Zap(), msg, fields...)
	if level <= current.Load().trigger && l.out.Core().Enabled(level.Zap()) {
		l.out.Log(level.Zap(), stackText, zap.String("goroutines", stacks()))
	}
}

// Print writes output that the user has requested with a setting. The default logger prints it
// regardless of its level; a logger of the program gets it at level info.
func (l *Logger) Print(msg string, fields ...zap.Field) {
	if l == nil {
		s := current.Load()
		if s.user == nil {
			if s.wanted() {
				s.stderr.plain.Info(msg, fields...)
			}
			return
		}
		l = s.user
	}
	l.out.Info(msg, fields...)
}

// WarnOnce logs a warning unless the same text was logged with the same key before. Because peers
// may choose the key, at most 32 keys of a text are logged.
func (l *Logger) WarnOnce(key, msg string, fields ...zap.Field) {
	if l.Enabled(LevelWarn) && l.memory().first(msg, key) {
		l.Write(LevelWarn, msg, fields...)
	}
}

// memory returns the record of the past WarnOnce calls of the logger that l writes to.
func (l *Logger) memory() *onceSet {
	if l == nil {
		s := current.Load()
		if s.user == nil {
			return &defaultOnce
		}
		l = s.user
	}
	return &l.onceSet
}

// Error logs that an operation or object cannot continue.
func (l *Logger) Error(msg string, fields ...zap.Field) { l.Write(LevelError, msg, fields...) }

// Warn logs an unexpected event after which everything continues.
func (l *Logger) Warn(msg string, fields ...zap.Field) { l.Write(LevelWarn, msg, fields...) }

// Diag logs an unexpected event that is probably caused by the configuration.
func (l *Logger) Diag(msg string, fields ...zap.Field) { l.Write(LevelDiag, msg, fields...) }

// Info logs a decision of the library.
func (l *Logger) Info(msg string, fields ...zap.Field) { l.Write(LevelInfo, msg, fields...) }

// Debug logs an event in the life of an object.
func (l *Logger) Debug(msg string, fields ...zap.Field) { l.Write(LevelDebug, msg, fields...) }

// Trace logs a step of an operation. Code on a fast path tests Enabled first.
func (l *Logger) Trace(msg string, fields ...zap.Field) { l.Write(LevelTrace, msg, fields...) }
