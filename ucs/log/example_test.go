package log_test

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ucx-go/ucx/ucs/log"
)

// A program that has a logger of its own gives it to the library. What is printed
// is then the logger's decision, not that of UCX_LOG_LEVEL.
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
