package config

import (
	"fmt"
	"math"
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

// global holds the settings of the process rather than of a context.
type global struct {
	LogLevel   log.Level `ucx:"LOG_LEVEL" default:"warn" doc:"How much to log to stderr; fatal means nothing. A logger set by the program\ndecides for itself."`
	LogFile    string    `ucx:"LOG_FILE" default:"" doc:"File to log to instead of stderr; %p in its name stands for the number of the process, %h for the host. A logger set by the program\ndecides for itself."`
	LogSize    Bytes     `ucx:"LOG_FILE_SIZE" default:"inf" doc:"Size at which a new file is begun; 1k at least."`
	LogRotate  uint      `ucx:"LOG_FILE_ROTATE" default:"0" doc:"Number of full files to keep, as NAME.1, which is the youngest, and so on."`
	Trigger    log.Level `ucx:"LOG_LEVEL_TRIGGER" default:"fatal" doc:"Level of messages after which the stacks of all goroutines are printed, also for more severe messages; fatal means never. C UCX ends the process there; this library does not."`
	LogFiles   string    `ucx:"LOG_FILE_FILTER" default:"*" doc:"Pattern with *, ? and [a-z] for the source files whose messages are printed. It must match the file's name (rndv_*.go) or the name with its package (uct/tcp/*). A logger set by the program\ndecides for itself."`
	WarnUnused bool      `ucx:"WARN_UNUSED_ENV_VARS" default:"y" doc:"Warn about UCX_ variables and settings in files that nothing knows."`
}

const globalName = "global"

func init() {
	Register(Section{Name: globalName, Title: "UCS global", New: func() any { return new(global) }})
}

// minLogFile is the least size of a log file: that of C's buffer for a message.
const minLogFile = 1 << 10

// applyGlobal makes the process follow the settings of s that are about the log, unless s has
// none.
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
		return fmt.Errorf("config: UCX_LOG_FILE_SIZE of %v is less than %v, or UCX_LOG_FILE_ROTATE of %d too much: %w",
			g.LogSize, Bytes(minLogFile), g.LogRotate, ucs.ErrInvalidParam)
	}
	if err := log.SetFile(log.File{Name: g.LogFile, MaxSize: g.LogSize.Int(math.MaxInt), Keep: int(g.LogRotate)}); err != nil {
		return fmt.Errorf("config: UCX_LOG_FILE: %w: %w", err, ucs.ErrInvalidParam)
	}
	return nil
}

// reported remembers the unknown names that were logged.
var reported sync.Map // name without UCX_ -> struct{}

// reportUnknown logs each unknown name once in the life of the process: settings of C UCX that
// have no effect here in one short line for all, others in one each. Names in a file count less: one
// file may serve C UCX too, which has more settings.
func (s *Set) reportUnknown() {
	var g global
	if err := s.Load(globalName, &g); err != nil || !g.WarnUnused {
		return
	}
	var idle [2]foreignNames // of variables, of files
	for _, u := range s.Unknown() {
		level := log.LevelWarn
		file := 0
		switch u.Origin.Kind {
		case FromCall:
			continue // the caller asks for Unknown itself
		case FromFile:
			level, file = log.LevelInfo, 1
		}
		if e, _ := s.unknown(u.Name); u.NoEffect != "" && !tell(u.Name, e.value) {
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

// reportCall logs a setting of C UCX that a call has set and that has no effect here, once.
func (s *Set) reportCall(e entry) {
	u := UnknownName{Name: e.name}
	if matchesAny(e.name) {
		return
	}
	if u.NoEffect, _ = noEffect(e.name); u.NoEffect == "" || !tell(e.name, e.value) {
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
