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

// TestLogFile checks that the process logs to the file that the settings name, and starts a new
// file when that one is full.
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
		mustRead(t, "", "") // like each context; must not start a new file
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

// TestLogTriggerAndFilter checks that UCX_LOG_LEVEL_TRIGGER and UCX_LOG_FILE_FILTER affect the log.
func TestLogTriggerAndFilter(t *testing.T) {
	clean(t)
	t.Cleanup(func() {
		log.SetTrigger(log.LevelFatal)
		if err := log.SetFileFilter(""); err != nil {
			t.Error(err)
		}
		if err := log.SetFile(log.File{}); err != nil {
			t.Error(err)
		}
	})
	name := filepath.Join(t.TempDir(), "log")
	t.Setenv("UCX_LOG_FILE", name)
	for _, tc := range []struct {
		trigger, files  string
		printed, stacks bool
	}{
		{"", "", true, false}, {"error", "", true, false}, {"warn", "", true, true}, {"warn", "nothing*", false, false},
		{"warn", "ucs/config/*", true, true},
	} {
		for setting, value := range map[string]string{"LOG_LEVEL_TRIGGER": tc.trigger, "LOG_FILE_FILTER": tc.files} {
			if value != "" {
				t.Setenv("UCX_"+setting, value)
			}
		}
		mustRead(t, "", "")
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("odd")
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(got[len(before):])
		if strings.Contains(text, "odd") != tc.printed || strings.Contains(text, "TestLogTriggerAndFilter") != tc.stacks {
			t.Errorf("trigger %q, files %q: printed\n%s", tc.trigger, tc.files, text)
		}
	}
	for setting, value := range map[string]string{"LOG_FILE_FILTER": "[", "LOG_LEVEL_TRIGGER": "loud"} {
		if err := new(Set).Modify(setting, value); !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s=%s: %v", setting, value, err)
		}
	}
}
