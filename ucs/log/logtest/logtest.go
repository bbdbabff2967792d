// Package logtest makes a test fail when the library logs a warning or an error
// that the test did not declare.
package logtest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/log"
)

// Watch captures the library's log for the rest of the test. At the end of the test, the test fails
// if a message of level warn or error was not declared by Expect or Allow, or if a message declared
// by Expect has not come. Messages of level info and above are also passed to t.Log.
//
// A process has one log, so tests that call Watch must not run in parallel. If a subtest calls
// Watch, its Log gets all messages until the subtest ends.
func Watch(t testing.TB) *Log {
	t.Helper()
	l := &Log{t: t}
	ledger.LogAgain()
	previous := log.SetLogger(zap.New(&core{log: l}))
	t.Cleanup(func() {
		log.SetLogger(previous)
		l.finish()
	})
	return l
}

// Log is the watched log of a test.
type Log struct {
	t testing.TB

	mu       sync.Mutex
	expected []*expectation // guarded by mu
	surprise []string       // messages that were not declared; guarded by mu
	closed   bool           // guarded by mu; the test has ended and t must not be used
}

type expectation struct {
	text  string
	must  bool
	times int
}

// Expect declares that a warning or error with this text in its message or fields must come at
// least once before the test ends.
func (l *Log) Expect(text string) { l.add(text, true) }

// Allow declares that a warning or error with this text in its message or fields may come.
func (l *Log) Allow(text string) { l.add(text, false) }

func (l *Log) add(text string, must bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expected = append(l.expected, &expectation{text: text, must: must})
}

func (l *Log) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, line := range l.surprise {
		l.t.Errorf("unexpected log message: %s", line)
	}
	for _, e := range l.expected {
		if e.must && e.times == 0 && !l.t.Skipped() {
			l.t.Errorf("no log message with %q", e.text)
		}
	}
}

// take handles one message: it passes it to t.Log, and compares it with the declared ones.
func (l *Log) take(level zapcore.Level, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.t.Log(line)
	if level < zapcore.WarnLevel {
		return
	}
	for _, e := range l.expected {
		if strings.Contains(line, e.text) {
			e.times++
			return
		}
	}
	l.surprise = append(l.surprise, line)
}

// core is a zap core that passes messages to a Log, with the fields that are added to every
// message.
type core struct {
	log    *Log
	fields []zapcore.Field
}

var _ zapcore.Core = (*core)(nil)

func (c *core) Enabled(level zapcore.Level) bool { return level >= zapcore.InfoLevel }

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{log: c.log, fields: slices.Concat(c.fields, fields)}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		LevelKey: "level", EncodeLevel: zapcore.CapitalLevelEncoder,
		MessageKey: "msg", ConsoleSeparator: " ",
		EncodeDuration: zapcore.StringDurationEncoder,
	})
	buf, err := enc.EncodeEntry(e, slices.Concat(c.fields, fields))
	if err != nil {
		return err
	}
	c.log.take(e.Level, strings.TrimSuffix(buf.String(), "\n"))
	buf.Free()
	return nil
}

func (c *core) Sync() error { return nil }
