package config

import (
	"path"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/ucs/log"
)

// TestNoEffect: settings of C that mean nothing here are told apart from others.
func TestNoEffect(t *testing.T) {
	for name, want := range map[string]string{
		"MEMTYPE_CACHE": "GPUs", "RC_MLX5_TX_MAX_BB": "transport is not here", "UD_VERBS_RX_INLINE": "mlx5", "RCACHE_STAT_MIN": "registrations",
		"UD_VERBS_RX_QUEUE_LEN_INIT": "grow", "UD_RX_ASYNC_MAX_POLL": "UCX_UD_VERBS_ASYNC", "MEMTYPE_CASH": "", "LOG_LEVEL": "", "TEST_SEG_SIZE": "",
	} {
		if got := NoEffect(name); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestForeignTable: all patterns can be read, and no exact name is there twice.
func TestForeignTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, g := range foreign {
		for _, item := range g.names {
			name, _, _ := strings.Cut(item, "=")
			if _, err := path.Match(name, ""); err != nil || seen[name] || g.why == "" {
				t.Errorf("%q: seen %v, reason %q, %v", item, seen[name], g.why, err)
			}
			seen[name] = true
		}
	}
}

// TestForeignReport: settings without effect are one line, with the reasons, and only where the
// value asks for what does not happen; misspelt ones have the nearest name.
func TestForeignReport(t *testing.T) {
	clean(t)
	for _, kv := range []string{
		"UCX_MEMTYPE_COPY_ENABLE=y", "UCX_CUDA_COPY_MAX_POLL=1", "UCX_GDB_COMMAND=gdb", "UCX_TEST_SEG_SIXE=1",
		"UCX_MEMTYPE_CACHE=no", "UCX_GVA_ENABLE=OFF", "UCX_MODULES=all",
	} {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	previous := log.SetLogger(zap.New(core))
	defer log.SetLogger(previous)
	mustRead(t, "", "")
	mustRead(t, "", "")
	var got []string
	for _, e := range logs.All() {
		f := e.ContextMap()
		got = append(got, strings.TrimSpace(e.Message[:8])+" "+str(f["name"])+str(f["nearest"])+str(f["settings"]))
	}
	want := []string{
		"unknown UCX_TEST_SEG_SIXEUCX_TEST_SEG_SIZE",
		"settings UCX_CUDA_COPY_MAX_POLL, UCX_MEMTYPE_COPY_ENABLE: there is no memory of GPUs; " +
			"UCX_GDB_COMMAND: crashes are Go's: the runtime prints the goroutines, and no handler of signals is installed",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestForeignCall: a setting without effect that a call sets is told of, once.
func TestForeignCall(t *testing.T) {
	clean(t)
	core, logs := observer.New(zapcore.InfoLevel)
	previous := log.SetLogger(zap.New(core))
	defer log.SetLogger(previous)
	s := new(Set)
	for _, value := range []string{"none", "bt,freeze", "debug"} {
		if err := s.Modify("HANDLE_ERRORS", value); err != nil {
			t.Fatal(err)
		}
	}
	if logs.Len() != 1 || !strings.Contains(str(logs.All()[0].ContextMap()["settings"]), "UCX_HANDLE_ERRORS: crashes") {
		t.Errorf("logged %v", logs.All())
	}
}

func str(v any) string {
	s, _ := v.(string)
	return s
}
