package log

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// SetHandler makes the library log to h, which decides what is printed; nil restores the default
// logger. It calls SetLogger with a logger that writes to h. It returns the logger set before, nil
// for the default. Any goroutine may call it.
//
// A program that changes levels at run time gives its handler a slog.LevelVar, which is
// read for each message.
func SetHandler(h slog.Handler) (previous *zap.Logger) {
	if h == nil {
		return SetLogger(nil)
	}
	return SetLogger(zap.New(NewCore(h)))
}

// NewCore returns a zap core that writes to h. Levels are converted as by Level.Slog, which does
// not distinguish diag and info. Fields become attributes, and an error stays an error value.
func NewCore(h slog.Handler) zapcore.Core { return handlerCore{h} }

// handlerCore writes to a slog.Handler.
type handlerCore struct{ h slog.Handler }

var _ zapcore.Core = handlerCore{}

// Enabled implements zapcore.LevelEnabler.
func (c handlerCore) Enabled(z zapcore.Level) bool {
	return c.h.Enabled(context.Background(), slogLevel(z))
}

// With implements zapcore.Core.
func (c handlerCore) With(fields []zapcore.Field) zapcore.Core {
	return handlerCore{c.h.WithAttrs(attrs(nil, fields))}
}

// Check implements zapcore.Core.
func (c handlerCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c handlerCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	r.AddAttrs(attrs(make([]slog.Attr, 0, len(fields)), fields)...)
	return c.h.Handle(context.Background(), r)
}

// Sync implements zapcore.Core. It does nothing: a slog.Handler has no buffer to flush.
func (handlerCore) Sync() error { return nil }

// attrs appends fields as attributes.
func attrs(list []slog.Attr, fields []zapcore.Field) []slog.Attr {
	for k, f := range fields {
		switch f.Type {
		case zapcore.SkipType:
		case zapcore.NamespaceType:
			group := attrs(nil, fields[k+1:])
			return append(list, slog.Attr{Key: f.Key, Value: slog.GroupValue(group...)})
		case zapcore.ErrorType:
			list = append(list, slog.Any(f.Key, f.Interface))
		default: // a field that is inlined or cannot be printed becomes several attributes
			m := zapcore.NewMapObjectEncoder()
			f.AddTo(m)
			for key, value := range m.Fields {
				list = append(list, slog.Any(key, value))
			}
		}
	}
	return list
}

// slogLevel maps a zap level to a slog level. The library's levels below debug stay below it.
func slogLevel(z zapcore.Level) slog.Level {
	if z < zapcore.DebugLevel {
		return slog.LevelDebug + slog.Level(z-zapcore.DebugLevel)
	}
	return slog.Level(4 * z)
}

// Slog returns the level that a slog.Handler gets: slog's levels down to debug, and one less for
// each level below.
func (l Level) Slog() slog.Level { return slogLevel(l.Zap()) }
