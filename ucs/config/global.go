package config

import (
	"sync"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// global holds the settings of the process rather than of a context.
type global struct {
	LogLevel   log.Level `ucx:"LOG_LEVEL" default:"fatal" doc:"How much to log to stderr; fatal means nothing. A logger set by the program\ndecides for itself."`
	WarnUnused bool      `ucx:"WARN_UNUSED_ENV_VARS" default:"y" doc:"Warn about UCX_ variables and settings in files that nothing knows."`
}

const globalName = "global"

func init() {
	Register(Section{Name: globalName, Title: "UCS global", New: func() any { return new(global) }})
}

// applyGlobal makes the process follow the settings of s: the log level, unless
// s has none.
func (s *Set) applyGlobal() error {
	var g global
	if err := s.Load(globalName, &g); err != nil {
		return err
	}
	if _, origin, _ := s.Lookup("LOG_LEVEL"); origin.Kind != FromDefault {
		log.SetLevel(g.LogLevel)
	}
	return nil
}

// reported remembers the unknown names that were logged.
var reported sync.Map // name without UCX_ -> struct{}

// reportUnknown logs each unknown name once in the life of the process. Names in
// a file count less: one file may serve C UCX too, which has more settings.
func (s *Set) reportUnknown() {
	var g global
	if err := s.Load(globalName, &g); err != nil || !g.WarnUnused {
		return
	}
	for _, u := range s.Unknown() {
		level := log.LevelWarn
		switch u.Origin.Kind {
		case FromCall:
			continue // the caller asks for Unknown itself
		case FromFile:
			level = log.LevelInfo
		}
		if _, again := reported.LoadOrStore(u.Name, struct{}{}); again {
			continue
		}
		fields := []zap.Field{zap.String("name", defaultPrefix+u.Name), zap.Stringer("origin", u.Origin)}
		if u.Nearest != "" {
			fields = append(fields, zap.String("nearest", defaultPrefix+u.Nearest))
		}
		log.Write(level, "unknown setting (UCX_WARN_UNUSED_ENV_VARS=n hides this)", fields...)
	}
}
