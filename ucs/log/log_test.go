package log

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// restore restores the package's state at the end of the test.
func restore(t *testing.T) {
	s := current.Load()
	t.Cleanup(func() { current.Store(s) })
}

// capture has the default logger write to a buffer.
func capture(t *testing.T) *bytes.Buffer {
	restore(t)
	var buf bytes.Buffer
	change(func(s *state) { s.stderr = newWriter(zapcore.AddSync(&buf)) })
	return &buf
}

func TestLevels(t *testing.T) {
	buf := capture(t)
	for set := LevelFatal; set <= LevelPoll; set++ {
		SetLevel(set)
		for l := LevelError; l <= LevelPoll; l++ {
			buf.Reset()
			Write(l, "message", zap.Int("n", 7))
			printed := buf.Len() > 0
			if want := l <= set; printed != want || Enabled(l) != want {
				t.Errorf("UCX_LOG_LEVEL=%v: %v printed %v, enabled %v", set, l, printed, Enabled(l))
			}
			if printed {
				want := regexp.MustCompile(`^\[\d+\.\d{6}\] \[[^ ]+:\d+:0\] UCX  ` + l.String() + ` +message \{"n": 7\}\n$`)
				if !want.Match(buf.Bytes()) {
					t.Errorf("%v printed as %q", l, buf)
				}
			}
		}
	}
}

// TestPrint checks that output that the user asked for by a setting is printed at any level.
func TestPrint(t *testing.T) {
	buf := capture(t)
	SetLevel(LevelFatal)
	Print("  a table")
	if want := regexp.MustCompile(`^\[\d+\.\d{6}\] \[[^ ]+:\d+:0\] UCX   a table\n$`); !want.Match(buf.Bytes()) {
		t.Errorf("printed as %q", buf)
	}
}

func TestLevelNames(t *testing.T) {
	for l := LevelFatal; l <= LevelPoll; l++ {
		for _, s := range []string{l.String(), strings.ToLower(l.String())} {
			var got Level
			if err := got.ParseConfig(s); err != nil || got != l {
				t.Errorf("ParseConfig(%q) = %v, %v", s, got, err)
			}
		}
	}
	got := LevelInfo
	for _, s := range []string{"", "loud", "WARN "} {
		if err := got.ParseConfig(s); err == nil || got != LevelInfo {
			t.Errorf("ParseConfig(%q) = %v, %v; want an error and no change", s, got, err)
		}
	}
	if s := Level(200).String(); s == "" {
		t.Error("an absurd level has no name")
	}
	restore(t)
	SetLevel(Level(200)) // clipped
	if !Enabled(LevelPoll) {
		t.Error("SetLevel beyond the last one disabled the last one")
	}
}

func TestNoLevelEndsTheProcess(t *testing.T) {
	for l := LevelFatal; l < levelLast; l++ {
		if z := l.Zap(); z > zapcore.ErrorLevel {
			t.Errorf("%v is zap's %v", l, z)
		}
	}
}

func TestSetLogger(t *testing.T) {
	buf := capture(t)
	core, logs := observer.New(zapcore.WarnLevel)
	mine := zap.New(core)
	if old := SetLogger(mine); old != nil {
		t.Errorf("previous logger = %v, want nil", old)
	}
	SetLevel(LevelPoll) // does not apply to the application's logger
	for l := LevelError; l <= LevelPoll; l++ {
		Write(l, l.String())
		if want := l <= LevelWarn; Enabled(l) != want {
			t.Errorf("Enabled(%v) = %v", l, !want)
		}
	}
	if logs.Len() != 2 || logs.All()[0].Message != "ERROR" || logs.All()[1].Message != "WARN" {
		t.Errorf("logged %v", logs.All())
	}
	if old := SetLogger(nil); old != mine {
		t.Errorf("previous logger = %v, want mine", old)
	}
	if buf.Len() > 0 {
		t.Errorf("the default logger printed %q meanwhile", buf)
	}
	Trace("back")
	if !strings.Contains(buf.String(), "back") {
		t.Error("the default logger is not back")
	}
}

func TestDisabledIsFree(t *testing.T) {
	restore(t)
	SetLogger(nil)
	SetLevel(LevelWarn)
	n := testing.AllocsPerRun(100, func() {
		if Enabled(LevelData) {
			Write(LevelData, "never", zap.Int("n", 1))
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a disabled message", n)
	}
}

// TestProcess runs this test's binary as a program that logs, and checks what reaches its stderr.
func TestProcess(t *testing.T) {
	if os.Getenv("LOG_TEST_CHILD") != "" {
		Error("something is wrong")
		for range 3 {
			WarnOnce("key", "something is odd")
		}
		Info("something is so")
		return
	}
	for _, tc := range []struct {
		level      string
		set        bool
		err, infos bool
		warnings   int
	}{
		{set: false, err: true, warnings: 1},
		{set: true, level: "fatal"},
		{set: true, level: "error", err: true},
		{set: true, level: "Info", err: true, infos: true, warnings: 1},
		{set: true, level: "nonsense", err: true, warnings: 1},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcess$")
		for _, kv := range os.Environ() {
			if !strings.HasPrefix(kv, "UCX_") {
				cmd.Env = append(cmd.Env, kv)
			}
		}
		cmd.Env = append(cmd.Env, "LOG_TEST_CHILD=1")
		if tc.set {
			cmd.Env = append(cmd.Env, "UCX_LOG_LEVEL="+tc.level)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		gotErr := strings.Contains(stderr.String(), "something is wrong")
		gotInfo := strings.Contains(stderr.String(), "something is so")
		if warnings := strings.Count(stderr.String(), "something is odd"); gotErr != tc.err || gotInfo != tc.infos || warnings != tc.warnings {
			t.Errorf("UCX_LOG_LEVEL=%q (set: %v): stderr %q", tc.level, tc.set, &stderr)
		}
	}
}
