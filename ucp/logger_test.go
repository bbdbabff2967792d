package ucp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/ucs/log/logtest"
)

// ownLogger returns a logger for a context, its output, and its level, which may change.
func ownLogger(name string) (*slog.Logger, *bytes.Buffer, *slog.LevelVar) {
	var buf bytes.Buffer
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	return slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: &level})).With("library", name), &buf, &level
}

// TestContextLogger: a context, its workers, endpoints and interfaces log to the logger of
// the context alone, whose level may change meanwhile.
func TestContextLogger(t *testing.T) {
	logtest.Watch(t) // nothing may be logged to the logger of the process
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Modify("TLS", "self"); err != nil {
		t.Fatal(err)
	}
	var bufs []*bytes.Buffer
	var levels []*slog.LevelVar
	var workers []*Worker
	for _, name := range []string{"one", "two"} {
		l, buf, level := ownLogger(name)
		c, err := NewContext(ContextParams{Logger: l}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		w, err := c.NewWorker(WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		bufs, levels, workers = append(bufs, buf), append(levels, level), append(workers, w)
	}
	for _, buf := range bufs {
		if got := buf.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "context without features") {
			t.Errorf("a context has logged %q", got)
		}
		buf.Reset()
	}
	levels[1].Set(slog.LevelDebug)
	for _, w := range workers {
		addr, err := w.Address(0)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ep, err := w.NewEndpoint(EndpointParams{Address: addr, OnError: func(*Endpoint, error, any) {}})
			if err != nil {
				t.Fatal(err)
			}
			ep.Close()
		}
		w.uctw.Log().Warn("from below")
		w.uctw.Log().Debug("from below at debug")
	}
	for k, want := range []int{0, 1} {
		got := bufs[k].String()
		if strings.Count(got, "OnError is never called") != 1 || strings.Count(got, `msg="from below"`) != 1 || strings.Count(got, "at debug") != want {
			t.Errorf("worker %d has logged %q", k, got)
		}
		if name := []string{"two", "one"}[k]; strings.Contains(got, "library="+name) {
			t.Errorf("worker %d has logged for the other: %q", k, got)
		}
	}
	if log.Enabled(log.LevelDebug) {
		t.Error("a context's level is that of the process")
	}
}

// TestInfo: level info says once which transports a worker has opened, and once for each
// configuration of endpoints which lanes they use.
func TestInfo(t *testing.T) {
	l, buf, level := ownLogger("mine")
	level.Set(slog.LevelInfo)
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Modify("TLS", "self"); err != nil {
		t.Fatal(err)
	}
	c, err := NewContext(ContextParams{Logger: l, Features: FeatureTag | FeatureRMA | FeatureAMO64}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.NewWorker(WorkerParams{Name: "ours"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.NewEndpoint(EndpointParams{Address: addr}); err != nil {
			t.Fatal(err)
		}
	}
	got := buf.String()
	for _, want := range []string{
		`level=INFO msg="worker uses" library=mine worker=ours transports=[self/memory]`,
		`level=INFO msg="ep_cfg[0]: tag(self/memory) rma(self/memory) amo(self/memory)" library=mine worker=ours`,
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once", want)
		}
	}
	if strings.Count(got, "\n") != 2 {
		t.Errorf("logged %q", got)
	}
}
