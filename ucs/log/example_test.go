package log_test

import (
	"log/slog"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ucx-go/ucx/ucs/log"
)

// A program with a logger of its own passes it to the library. That logger then decides what is
// printed, not UCX_LOG_LEVEL.
func ExampleSetLogger() {
	plain := zapcore.EncoderConfig{MessageKey: "text", LevelKey: "level", EncodeLevel: zapcore.LowercaseLevelEncoder}
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(plain), os.Stdout, zapcore.WarnLevel)

	previous := log.SetLogger(zap.New(core))
	defer log.SetLogger(previous)

	log.Warn("no device", zap.String("device", "mlx5_0"))
	log.Debug("nobody asked for this")
	// Output:
	// warn	no device	{"device": "mlx5_0"}
}

// A program that logs with slog passes its handler to the library. It can change the level at any
// time with a slog.LevelVar.
func ExampleSetHandler() {
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: &level, ReplaceAttr: noTime})

	previous := log.SetHandler(handler)
	defer log.SetLogger(previous)

	log.Info("nobody asked for this")
	level.Set(slog.LevelInfo)
	log.Info("in use", zap.String("device", "mlx5_0"))
	// Output:
	// level=INFO msg="in use" device=mlx5_0
}
