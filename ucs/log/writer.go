package log

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// writer is the default logger. Its lines have the layout of C UCX, but without the source
// location. It prints every message that it gets, because Logger.Write has filtered them before.
type writer struct {
	levels *zap.Logger // labels lines with the names of zap's levels
	diag   *zap.Logger // labels lines DIAG, a level that zap does not have
	plain  *zap.Logger // labels lines UCX, without a level
}

func stderr() zapcore.WriteSyncer { return zapcore.Lock(os.Stderr) }

// newWriter returns a default logger that writes its lines to w.
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

// at returns the logger that labels lines with the level.
func (w *writer) at(l Level) *zap.Logger {
	if l == LevelDiag {
		return w.diag
	}
	return w.levels
}

// encodeLevel prints the level names of this package for zap's numbers.
func encodeLevel(z zapcore.Level, enc zapcore.PrimitiveArrayEncoder) {
	name := z.CapitalString()
	if z < zapcore.DebugLevel {
		name = levelNames[min(LevelDebug+Level(zapcore.DebugLevel-z), LevelPoll)]
	}
	appendLevel(enc, name)
}

// appendLevel prints the library's name and the level's name, in columns.
func appendLevel(enc zapcore.PrimitiveArrayEncoder, name string) {
	enc.AppendString(fmt.Sprintf("UCX  %-5s", name))
}

// process is the host and the process id in the layout of C UCX. The last number, which is a thread
// id there, is 0.
var process = func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("[%s:%d:0]", host, os.Getpid())
}()

// encodeTime prints seconds since 1970 with microseconds, and the process, as C UCX does. Such
// times are easy to subtract, and the lines can be merged with the output of a C process.
func encodeTime(t time.Time, enc zapcore.PrimitiveArrayEncoder) {
	enc.AppendString(fmt.Sprintf("[%d.%06d] %s", t.Unix(), t.Nanosecond()/1000, process))
}
