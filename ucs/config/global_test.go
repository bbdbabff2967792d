package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

// TestLogFile: the process logs to the file that the settings name, and begins a new one
// when that is full.
func TestLogFile(t *testing.T) {
	clean(t)
	t.Cleanup(func() {
		log.SetLevel(log.LevelWarn)
		if err := log.SetFile(log.File{}); err != nil {
			t.Error(err)
		}
	})
	name := filepath.Join(t.TempDir(), "log")
	t.Setenv("UCX_LOG_FILE", name)
	t.Setenv("UCX_LOG_FILE_SIZE", "1k")
	t.Setenv("UCX_LOG_FILE_ROTATE", "1")
	t.Setenv("UCX_LOG_LEVEL", "info")
	s := mustRead(t, "", "")
	for range 2 {
		log.Info(strings.Repeat("x", 900))
		mustRead(t, "", "") // as each context does, which must not begin it anew
	}
	for _, file := range []string{name, name + ".1"} {
		if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != 1 {
			t.Errorf("%s: %d bytes, %v", file, len(b), err)
		}
	}
	for setting, value := range map[string]string{"LOG_FILE_SIZE": "1023", "LOG_FILE_ROTATE": "4294967295", "LOG_FILE": filepath.Join(name, "below")} {
		if err := s.Clone().Modify(setting, value); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s=%s: %v", setting, value, err)
		}
	}
}
