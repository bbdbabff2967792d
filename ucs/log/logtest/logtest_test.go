package logtest_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/ucs/log/logtest"
)

// fakeT is a test that records its failures.
type fakeT struct {
	testing.TB
	errors  []string
	cleanup []func()
	skipped bool
}

func (f *fakeT) Helper()          {}
func (f *fakeT) Skipped() bool    { return f.skipped }
func (f *fakeT) Log(...any)       {}
func (f *fakeT) Cleanup(c func()) { f.cleanup = append(f.cleanup, c) }
func (f *fakeT) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}
func (f *fakeT) end() {
	for i := len(f.cleanup) - 1; i >= 0; i-- {
		f.cleanup[i]()
	}
}

func TestWatch(t *testing.T) {
	for _, tc := range []struct {
		name string
		run  func(l *logtest.Log)
		want []string // parts of the failures wanted, in order
	}{
		{"quiet", func(*logtest.Log) { log.Info("fine"); log.Debug("fine") }, nil},
		{"warning", func(*logtest.Log) { log.Warn("odd", zap.Int("n", 7)) }, []string{`WARN odd {"n": 7}`}},
		{"error", func(*logtest.Log) { log.Error("broken") }, []string{"ERROR broken"}},
		{"expected", func(l *logtest.Log) {
			l.Expect(`"n": 7`)
			log.Warn("odd", zap.Int("n", 7))
			log.Warn("odd", zap.Int("n", 8))
		}, []string{`{"n": 8}`}},
		{"expected in vain", func(l *logtest.Log) { l.Expect("odd"); l.Allow("broken") }, []string{`no log message with "odd"`}},
		{"allowed", func(l *logtest.Log) { l.Allow("odd"); log.Warn("odd") }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &fakeT{}
			tc.run(logtest.Watch(f))
			f.end()
			log.Warn("after the end") // belongs to no test
			if len(f.errors) != len(tc.want) {
				t.Fatalf("failures %q, want %q", f.errors, tc.want)
			}
			for i, w := range tc.want {
				if !strings.Contains(f.errors[i], w) {
					t.Errorf("failure %q does not mention %q", f.errors[i], w)
				}
			}
		})
	}
}

// TestSkipped checks that a skipped test need not log what it expects, but that unexpected messages
// still fail it.
func TestSkipped(t *testing.T) {
	f := &fakeT{}
	l := logtest.Watch(f)
	l.Expect("odd")
	log.Warn("broken")
	f.skipped = true
	f.end()
	if len(f.errors) != 1 || !strings.Contains(f.errors[0], "broken") {
		t.Errorf("failures: %q", f.errors)
	}
}

func TestNestedWatch(t *testing.T) {
	outer := &fakeT{}
	logtest.Watch(outer)
	inner := &fakeT{}
	logtest.Watch(inner)
	log.Warn("inside")
	inner.end()
	log.Warn("outside")
	outer.end()
	if len(inner.errors) != 1 || !strings.Contains(inner.errors[0], "inside") {
		t.Errorf("inner failures: %q", inner.errors)
	}
	if len(outer.errors) != 1 || !strings.Contains(outer.errors[0], "outside") {
		t.Errorf("outer failures: %q", outer.errors)
	}
}
