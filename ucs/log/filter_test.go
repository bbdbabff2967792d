package log_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs/log"
)

// toFile has the default logger print to a file, returns a function that reads the file, and
// restores all settings of the log at the end of the test.
func toFile(t *testing.T) (printed func() string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	if err := log.SetFile(log.File{Name: name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.SetLevel(log.LevelWarn)
		log.SetTrigger(log.LevelFatal)
		if err := log.SetFileFilter(""); err != nil {
			t.Error(err)
		}
		if err := log.SetFile(log.File{}); err != nil {
			t.Error(err)
		}
	})
	return func() string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// TestFileFilter checks that only messages of the source files that match the filter are printed.
func TestFileFilter(t *testing.T) {
	printed := toFile(t)
	for pattern, want := range map[string]bool{
		"": true, "*": true, "filter_test.go": true, "filter*": true, "ucs/log_test/*": true, "ucs/*/*.go": true,
		"other*": false, "filter": false, "ucp/*": false, "[a-e]*": false, "*.c": false, "ucs/*": false,
	} {
		if err := log.SetFileFilter(pattern); err != nil {
			t.Fatal(err)
		}
		text := "with pattern " + pattern + ";"
		log.Warn("Warn " + text)
		log.Write(log.LevelError, "Write "+text)
		log.Print("Print " + text)
		log.WarnOnce(pattern, "WarnOnce "+text)
		(*log.Logger)(nil).Error("method " + text)
		func() { defer log.Error("deferred " + text) }()
		got := printed()
		for _, call := range []string{"Warn ", "Write ", "Print ", "WarnOnce ", "method ", "deferred "} {
			if strings.Contains(got, " "+call+text) != want {
				t.Errorf("%q: %s printed %v, want %v", pattern, call, !want, want)
			}
		}
	}
	if log.SetFileFilter("[") == nil {
		t.Error("a pattern that cannot be read is taken")
	}
}

// TestTrigger checks that the stacks of all goroutines follow a message of the trigger's level or
// above, and no other, and that the process continues.
func TestTrigger(t *testing.T) {
	printed := toFile(t)
	log.SetLevel(log.LevelInfo)
	started, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go waitsForStop(started, stop, stopped)
	<-started
	defer func() { close(stop); <-stopped }()
	log.Error("without a trigger")
	log.SetTrigger(log.LevelWarn)
	log.Info("better than the trigger")
	if got := printed(); strings.Contains(got, "goroutine ") {
		t.Errorf("stacks nobody has asked for:\n%s", got)
	}
	for _, write := range []func(string){func(s string) { log.Warn(s) }, func(s string) { log.Error(s) }} {
		before := len(printed())
		write("trigger")
		got := printed()[before:]
		message, stacks, found := strings.Cut(got, "UCX_LOG_LEVEL_TRIGGER")
		if !found || !strings.Contains(message, "trigger") || !strings.Contains(stacks, "waitsForStop") || !strings.Contains(stacks, "TestTrigger") {
			t.Errorf("printed\n%s", got)
		}
	}
	log.SetLevel(log.LevelFatal)
	before := len(printed())
	log.Error("not printed")
	if got := printed()[before:]; got != "" {
		t.Errorf("a message that is not printed prints\n%s", got)
	}
}

// waitsForStop is a function to look for in a dump of goroutines.
func waitsForStop(started, stop, stopped chan struct{}) {
	close(started)
	<-stop
	close(stopped)
}
