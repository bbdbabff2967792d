package config

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/ucs/log"
)

// TestNoEffect checks that settings of C UCX without effect in this library are recognized, with
// the reason, and that other names are not.
func TestNoEffect(t *testing.T) {
	for name, want := range map[string]string{
		"MEMTYPE_CACHE": "GPU memory", "RC_MLX5_TX_MAX_BB": "transport is not implemented", "UD_VERBS_RX_INLINE": "mlx5", "RCACHE_STAT_MIN": "registration cache",
		"UD_VERBS_RX_QUEUE_LEN_INIT": "on demand", "UD_RX_ASYNC_MAX_POLL": "UCX_UD_VERBS_ASYNC", "MEMTYPE_CASH": "", "LOG_LEVEL": "", "TEST_SEG_SIZE": "",
	} {
		if got := NoEffect(name); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestForeignTable checks that all patterns are valid, and that no name is in the table twice.
func TestForeignTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, g := range noEffectSettings {
		for _, item := range g.names {
			name, _, _ := strings.Cut(item, "=")
			if _, err := path.Match(name, ""); err != nil || seen[name] || g.why == "" {
				t.Errorf("%q: seen %v, reason %q, %v", item, seen[name], g.why, err)
			}
			seen[name] = true
		}
	}
}

// TestForeignReport checks that settings without effect are reported in one line, with the reasons,
// and only if the value asks for something that this library does not do. Misspelt settings are
// reported with the nearest name.
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
		"settings UCX_GDB_COMMAND: the Go runtime handles crashes; no signal handlers are installed; " +
			"UCX_CUDA_COPY_MAX_POLL, UCX_MEMTYPE_COPY_ENABLE: GPU memory is not supported",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestForeignReportIsShort checks that the report of dozens of settings without effect is a
// readable line that says how many it leaves out, and that level info lists all of them, by reason.
// The test depends on names that no other test uses.
func TestForeignReportIsShort(t *testing.T) {
	clean(t)
	const each = 20
	for k := range each {
		t.Setenv(fmt.Sprintf("UCX_CUDA_IS_SHORT_%d", k), "1")
		t.Setenv(fmt.Sprintf("UCX_DC_MLX5_IS_SHORT_%d", k), "1")
		t.Setenv(fmt.Sprintf("UCX_RNDV_PIPELINE_IS_SHORT_%d", k), "1")
		t.Setenv(fmt.Sprintf("UCX_MEM_BISTRO_IS_SHORT_%d", k), "1")
	}
	var out bytes.Buffer
	for _, level := range []zapcore.Level{zapcore.WarnLevel, zapcore.InfoLevel} {
		out.Reset()
		reported.Clear()
		previous := log.SetLogger(zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&out), level)))
		mustRead(t, "", "")
		log.SetLogger(previous)
		lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
		first := lines[0]
		shown := strings.Count(first, "IS_SHORT")
		if len(first) > 370 || shown < 2 || !strings.Contains(first, "UCX_RNDV_PIPELINE_IS_SHORT_0") ||
			!strings.Contains(first, fmt.Sprintf("and %d more: UCX_LOG_LEVEL=info lists them", 4*each-shown)) {
			t.Errorf("%d characters, %d names: %s", len(first), shown, first)
		}
		if want := 1 + 4*int(zapcore.WarnLevel-level); len(lines) != want {
			t.Errorf("level %v: %d lines, want %d", level, len(lines), want)
		}
		for _, line := range lines[1:] {
			if n := strings.Count(line, "IS_SHORT"); n != each {
				t.Errorf("%d names, want %d: %s", n, each, line)
			}
		}
	}
}

// TestForeignCall checks that a setting without effect that Modify sets is reported once.
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
	if logs.Len() != 1 || !strings.Contains(str(logs.All()[0].ContextMap()["settings"]), "UCX_HANDLE_ERRORS: the Go runtime") {
		t.Errorf("logged %v", logs.All())
	}
}

func str(v any) string {
	s, _ := v.(string)
	return s
}
