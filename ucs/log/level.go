package log

import (
	"errors"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Level is the importance of a message, with the numbers of ucs_log_level_t: the higher the
// level, the more is printed. It parses and prints itself as the setting UCX_LOG_LEVEL.
type Level uint8

// Levels. Nothing is logged at LevelFatal: as a setting it means no output.
const (
	LevelFatal Level = iota
	LevelError
	LevelWarn
	LevelDiag
	LevelInfo
	LevelDebug
	LevelTrace
	LevelReq
	LevelData
	LevelAsync
	LevelFunc
	LevelPoll
	levelLast
)

var levelNames = [levelLast]string{
	"FATAL", "ERROR", "WARN", "DIAG", "INFO", "DEBUG",
	"TRACE", "REQ", "DATA", "ASYNC", "FUNC", "POLL",
}

// zapLevels maps levels to zap's levels. Levels below debug get numbers below zap's lowest level;
// diag becomes zap's info. No level becomes zap's fatal or panic, which end the process.
var zapLevels = [levelLast]zapcore.Level{
	zapcore.ErrorLevel, zapcore.ErrorLevel, zapcore.WarnLevel, zapcore.InfoLevel,
	zapcore.InfoLevel, zapcore.DebugLevel,
	zapcore.DebugLevel - 1, zapcore.DebugLevel - 2, zapcore.DebugLevel - 3,
	zapcore.DebugLevel - 4, zapcore.DebugLevel - 5, zapcore.DebugLevel - 6,
}

// ParseConfig reads the name of a level in upper or lower case.
func (l *Level) ParseConfig(s string) error {
	for i, n := range levelNames {
		if strings.EqualFold(n, s) {
			*l = Level(i)
			return nil
		}
	}
	return errors.New("no such level")
}

// String returns C UCX's name of the level.
func (l Level) String() string {
	if l < levelLast {
		return levelNames[l]
	}
	return "level beyond POLL"
}

// ConfigSyntax describes what ParseConfig accepts.
func (Level) ConfigSyntax() string { return "[" + strings.Join(levelNames[:], "|") + "]" }

// Zap returns the level that a zap core gets. Levels below debug are below
// zapcore.DebugLevel.
func (l Level) Zap() zapcore.Level { return zapLevels[min(l, LevelPoll)] }
