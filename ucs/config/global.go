package config

import (
	"fmt"
	"math"
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

// global holds the settings that apply to the whole process. All other settings belong to a
// context.
type global struct {
	LogLevel   log.Level `ucx:"LOG_LEVEL" default:"warn" doc:"How much to log to stderr; fatal means nothing. It has no effect on a logger set by the program."`
	LogFile    string    `ucx:"LOG_FILE" default:"" doc:"File to log to instead of stderr; %p in its name stands for the process id, %h for the host. It has no effect on a logger set by the program."`
	LogSize    Bytes     `ucx:"LOG_FILE_SIZE" default:"inf" doc:"Size at which a new file is started; at least 1k."`
	LogRotate  uint      `ucx:"LOG_FILE_ROTATE" default:"0" doc:"Number of full files to keep; NAME.1 is the most recent."`
	Trigger    log.Level `ucx:"LOG_LEVEL_TRIGGER" default:"fatal" doc:"Level of messages after which the stacks of all goroutines are printed, also for more severe messages; fatal means never. C UCX ends the process there; this library does not."`
	LogFiles   string    `ucx:"LOG_FILE_FILTER" default:"*" doc:"Pattern with *, ? and [a-z] for the source files whose messages are printed. It must match the file's name (rndv_*.go) or the name with its package (uct/tcp/*). It has no effect on a logger set by the program."`
	WarnUnused bool      `ucx:"WARN_UNUSED_ENV_VARS" default:"y" doc:"Warn about unknown UCX_ variables and unknown settings in files."`
}

const globalName = "global"

func init() {
	Register(Section{Name: globalName, Title: "UCS global", New: func() any { return new(global) }})
}

// minLogFile is the least UCX_LOG_FILE_SIZE in bytes: the size of C's buffer for a message.
const minLogFile = 1 << 10

// applyGlobal applies the log settings of s to the process. A setting with its default value
// changes nothing.
func (s *Set) applyGlobal() error {
	var g global
	if err := s.Load(globalName, &g); err != nil {
		return err
	}
	if _, origin, _ := s.Lookup("LOG_LEVEL"); origin.Kind != FromDefault {
		log.SetLevel(g.LogLevel)
	}
	if _, origin, _ := s.Lookup("LOG_LEVEL_TRIGGER"); origin.Kind != FromDefault {
		log.SetTrigger(g.Trigger)
	}
	if value, origin, _ := s.Lookup("LOG_FILE_FILTER"); origin.Kind != FromDefault {
		if err := log.SetFileFilter(g.LogFiles); err != nil {
			return &ValueError{Name: "LOG_FILE_FILTER", Value: value, Origin: origin, Allowed: "a pattern as in path.Match", Err: err}
		}
	}
	if _, origin, _ := s.Lookup("LOG_FILE"); origin.Kind == FromDefault {
		return nil
	}
	if g.LogSize < minLogFile || g.LogRotate > math.MaxInt32 {
		return fmt.Errorf("config: UCX_LOG_FILE_SIZE of %v is below the minimum %v, or UCX_LOG_FILE_ROTATE of %d is too large: %w",
			g.LogSize, Bytes(minLogFile), g.LogRotate, ucs.ErrInvalidParam)
	}
	if err := log.SetFile(log.File{Name: g.LogFile, MaxSize: g.LogSize.Int(math.MaxInt), Keep: int(g.LogRotate)}); err != nil {
		return fmt.Errorf("config: UCX_LOG_FILE: %w: %w", err, ucs.ErrInvalidParam)
	}
	return nil
}

// reported holds the unknown names that have been logged.
var reported sync.Map // name without UCX_ -> struct{}

// reportUnknown logs each unknown name once per process. Settings of C UCX that have no effect in
// this library are logged together in one short line, other names in one line each. Names from a
// file are logged at level info only, because the file may also serve C UCX, which has more
// settings.
func (s *Set) reportUnknown() {
	var g global
	if err := s.Load(globalName, &g); err != nil || !g.WarnUnused {
		return
	}
	var idle [2]foreignNames // settings without effect: from variables, from files
	for _, u := range s.Unknown() {
		level := log.LevelWarn
		file := 0
		switch u.Origin.Kind {
		case FromCall:
			continue // the caller can call Unknown
		case FromFile:
			level, file = log.LevelInfo, 1
		}
		if e, _ := s.unknownEntry(u.Name); u.NoEffect != "" && !warnNoEffect(u.Name, e.value) {
			continue
		}
		if _, again := reported.LoadOrStore(u.Name, struct{}{}); again {
			continue
		}
		if u.NoEffect != "" {
			idle[file].add(u)
			continue
		}
		fields := []zap.Field{zap.String("name", defaultPrefix+u.Name), zap.Stringer("origin", u.Origin)}
		if u.Nearest != "" {
			fields = append(fields, zap.String("nearest", defaultPrefix+u.Nearest))
		}
		log.Write(level, "unknown setting (UCX_WARN_UNUSED_ENV_VARS=n hides this)", fields...)
	}
	idle[0].warn()
	idle[1].list()
}

// reportCall logs once that a call of Modify has set a setting of C UCX that has no effect in this
// library.
func (s *Set) reportCall(e entry) {
	u := UnknownName{Name: e.name}
	if matchesAny(e.name) {
		return
	}
	if u.NoEffect, _ = noEffect(e.name); u.NoEffect == "" || !warnNoEffect(e.name, e.value) {
		return
	}
	var g global
	if err := s.Load(globalName, &g); err != nil || !g.WarnUnused {
		return
	}
	if _, again := reported.LoadOrStore(e.name, struct{}{}); again {
		return
	}
	var idle foreignNames
	idle.add(u)
	idle.warn()
}
