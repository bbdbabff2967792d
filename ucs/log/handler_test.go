package log

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// textHandler returns a slog handler that prints lines without the time.
func textHandler(buf *bytes.Buffer, level slog.Leveler) slog.Handler {
	return slog.NewTextHandler(buf, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if groups == nil && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// point is a field that zap prints as an object.
type point struct{ x, y int }

func (p point) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddInt("x", p.x)
	enc.AddInt("y", p.y)
	return nil
}

// TestSetHandler checks that a slog handler gets messages of every level and fields of every kind,
// and that its level can change at any time.
func TestSetHandler(t *testing.T) {
	stderr := capture(t)
	SetLevel(LevelPoll)
	var buf bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	if was := SetHandler(textHandler(&buf, &level)); was != nil {
		t.Errorf("previous logger %v, want nil", was)
	}
	Info("before")
	level.Set(slog.LevelDebug - 1)
	Warn("odd", zap.String("name", "a b"), zap.Int("n", 7), zap.Uint64("u", 1<<63), zap.Bool("b", true),
		zap.Duration("for", time.Second), zap.Error(errors.New("why")), zap.Error(nil), zap.Stringer("level", LevelInfo))
	Error("bad", zap.Object("at", point{1, 2}), zap.Namespace("in"), zap.Int("n", 8), zap.Int("m", 9))
	for l := LevelDiag; l <= LevelReq; l++ {
		Write(l, "line")
	}
	want := strings.Join([]string{
		`level=WARN msg=odd name="a b" n=7 u=9223372036854775808 b=true for=1s error=why level=INFO`,
		`level=ERROR msg=bad at="map[x:1 y:2]" in.n=8 in.m=9`,
		`level=INFO msg=line`, `level=INFO msg=line`, `level=DEBUG msg=line`, `level=DEBUG-1 msg=line`, "",
	}, "\n")
	if got := buf.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if Enabled(LevelReq) || !Enabled(LevelTrace) {
		t.Error("the handler does not decide")
	}
	if stderr.Len() > 0 {
		t.Errorf("the default logger printed %q", stderr)
	}
	if was := SetHandler(nil); was == nil {
		t.Error("no previous logger")
	}
	Info("back")
	if !strings.Contains(stderr.String(), "back") {
		t.Error("the default logger is not back")
	}
}

// keeping is a handler that keeps its records.
type keeping struct{ records *[]slog.Record }

func (keeping) Enabled(context.Context, slog.Level) bool { return true }
func (k keeping) Handle(_ context.Context, r slog.Record) error {
	*k.records = append(*k.records, r)
	return nil
}
func (k keeping) WithAttrs([]slog.Attr) slog.Handler { return k }
func (k keeping) WithGroup(string) slog.Handler      { return k }

// TestErrorStays checks that a handler gets the error value itself.
func TestErrorStays(t *testing.T) {
	var records []slog.Record
	why := errors.New("why")
	FromSlog(slog.New(keeping{&records})).Warn("odd", zap.Error(why))
	if len(records) != 1 {
		t.Fatalf("%d records", len(records))
	}
	if now := time.Now(); records[0].Time.After(now) || records[0].Time.Before(now.Add(-time.Hour)) {
		t.Errorf("at %v", records[0].Time)
	}
	records[0].Attrs(func(a slog.Attr) bool {
		if a.Key != "error" || a.Value.Any() != why {
			t.Errorf("attribute %v", a)
		}
		return true
	})
}

// TestLoggers checks that a separate logger gets the messages that are logged to it, with its own
// attributes, and no others.
func TestLoggers(t *testing.T) {
	stderr := capture(t)
	SetLevel(LevelWarn)
	var a, b bytes.Buffer
	one := FromSlog(slog.New(textHandler(&a, slog.LevelDebug)).With("library", "one"))
	two := New(zap.New(NewCore(textHandler(&b, slog.LevelError))).Named("two").With(zap.Int("n", 2)))
	for _, l := range []*Logger{one, two, nil} {
		l.Error("error")
		l.Warn("warning")
		l.Debug("debug")
		l.Print("table")
	}
	if got, want := a.String(), "level=ERROR msg=error library=one\nlevel=WARN msg=warning library=one\n"+
		"level=DEBUG msg=debug library=one\nlevel=INFO msg=table library=one\n"; got != want {
		t.Errorf("the first has %q, want %q", got, want)
	}
	if got, want := b.String(), "level=ERROR msg=error n=2 logger=two\n"; got != want {
		t.Errorf("the second has %q, want %q", got, want)
	}
	if got := stderr.String(); strings.Count(got, "\n") != 3 || strings.Contains(got, "debug") {
		t.Errorf("the process's has %q", got)
	}
	if New(nil) != nil || FromSlog(nil) != nil {
		t.Error("a logger of nothing is not the process's")
	}
}

// TestTriggerOfLogger checks that an application's logger gets the stacks as a field of the
// messages that it prints.
func TestTriggerOfLogger(t *testing.T) {
	restore(t)
	SetTrigger(LevelWarn)
	var buf bytes.Buffer
	l := FromSlog(slog.New(textHandler(&buf, slog.LevelError)))
	l.Warn("not printed")
	if buf.Len() > 0 {
		t.Errorf("printed %q", &buf)
	}
	l.Error("bad")
	if lines := strings.Split(buf.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "goroutines=\"goroutine ") {
		t.Errorf("printed %q", &buf)
	}
}

// TestWarnOnce checks that a warning is logged once for each key and logger, for at most maxKeys
// keys, and that a warning below the log's level does not count as logged.
func TestWarnOnce(t *testing.T) {
	stderr := capture(t)
	defaultOnce = onceSet{} // forgets warnings of earlier runs
	SetLevel(LevelError)
	WarnOnce("", "a warning of TestWarnOnce")
	SetLevel(LevelWarn)
	var buf bytes.Buffer
	own := FromSlog(slog.New(textHandler(&buf, slog.LevelWarn)))
	for _, l := range []*Logger{nil, own} {
		for range 2 {
			l.WarnOnce("", "a warning of TestWarnOnce")
		}
		for k := range 2 * maxKeys {
			l.WarnOnce(strings.Repeat("k", k), "another")
		}
	}
	for _, got := range []string{stderr.String(), buf.String()} {
		if n := strings.Count(got, "a warning of"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if n := strings.Count(got, "another"); n != maxKeys {
			t.Errorf("%d of the other kind, want %d", n, maxKeys)
		}
	}
	SetHandler(textHandler(&buf, slog.LevelWarn))
	WarnOnce("", "a warning of TestWarnOnce")
	if n := strings.Count(buf.String(), "a warning of"); n != 2 {
		t.Error("a new logger for the process is not warned")
	}
}
