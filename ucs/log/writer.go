package log

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// writer is the default logger: lines in the layout of C UCX, but for the place in the
// source. It leaves the choice of levels to this package.
type writer struct {
	levels *zap.Logger // labels lines with zap's levels
	diag   *zap.Logger // labels them DIAG, which zap has not
	plain  *zap.Logger // does not label them
}

func stderr() zapcore.WriteSyncer { return zapcore.Lock(os.Stderr) }

// newWriter returns the default logger for lines that w takes.
func newWriter(w zapcore.WriteSyncer) *writer {
	label := func(level zapcore.LevelEncoder) *zap.Logger {
		enc := zap.NewProductionEncoderConfig()
		enc.ConsoleSeparator = " "
		enc.EncodeTime = encodeTime
		enc.EncodeLevel = level
		enc.EncodeDuration = zapcore.StringDurationEncoder
		all := zap.LevelEnablerFunc(func(zapcore.Level) bool { return true })
		return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), w, all))
	}
	return &writer{
		levels: label(encodeLevel),
		diag:   label(func(_ zapcore.Level, enc zapcore.PrimitiveArrayEncoder) { appendLevel(enc, levelNames[LevelDiag]) }),
		plain:  label(func(_ zapcore.Level, enc zapcore.PrimitiveArrayEncoder) { enc.AppendString("UCX") }),
	}
}

// at is the one that labels lines of a level rightly.
func (w *writer) at(l Level) *zap.Logger {
	if l == LevelDiag {
		return w.diag
	}
	return w.levels
}

// encodeLevel prints the names of this package for zap's numbers.
func encodeLevel(z zapcore.Level, enc zapcore.PrimitiveArrayEncoder) {
	name := z.CapitalString()
	if z < zapcore.DebugLevel {
		name = levelNames[min(LevelDebug+Level(zapcore.DebugLevel-z), LevelPoll)]
	}
	appendLevel(enc, name)
}

// appendLevel prints the name of the library and of the level, in columns.
func appendLevel(enc zapcore.PrimitiveArrayEncoder, name string) {
	enc.AppendString(fmt.Sprintf("UCX  %-5s", name))
}

// process is the host and the number of the process, as C UCX prints them; the last number
// is that of a thread there.
var process = func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("[%s:%d:0]", host, os.Getpid())
}()

// encodeTime prints seconds since 1970 with microseconds, and the process, as C UCX does:
// easy to subtract, and to merge with the output of a C process.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(fmt.Sprintf("[%d.%06d] %s", t.Unix(), t.Nanosecond()/1000, process))
}
