package ucp

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/ucx-go/ucx/ucs/log"
)

// loggedTables opens two workers with the given settings, runs exchange between them, closes both
// and returns the lines of the log.
func loggedTables(t *testing.T, level zapcore.Level, exchange func(a, b *Worker), settings ...string) []string {
	t.Helper()
	logs := watchLog(t, level)
	var workers [2]*Worker
	var contexts [2]*Context
	for k := range workers {
		contexts[k] = contextFor(t, targetFeatures, append([]string{"TLS", "tcp", "NET_DEVICES", "lo"}, settings...)...)
		workers[k] = openTarget(t, contexts[k])
	}
	exchange(workers[0], workers[1])
	for k := range workers {
		if err := workers[k].Close(); err != nil {
			t.Error(err)
		}
		contexts[k].Close()
	}
	var lines []string
	for _, e := range logs.All() {
		lines = append(lines, e.Message)
	}
	return lines
}

// TestProtoInfo checks which protocol tables are printed when they are made, as PROTO_INFO says.
func TestProtoInfo(t *testing.T) {
	const tag, stream = "tagged message by ucp_tag_send* from", "rendezvous data fetch"
	for _, tc := range []struct {
		setting     string
		level       zapcore.Level
		tag, stream bool
	}{
		{"y", zapcore.InfoLevel, true, true},
		{"n", zapcore.DebugLevel, false, false},
		{"auto", zapcore.InfoLevel, false, false},
		{"auto", zapcore.DebugLevel, true, true},
		{"*TAGGED*", zapcore.InfoLevel, true, false},
		{"*nothing*", zapcore.DebugLevel, false, false},
		{"used", zapcore.DebugLevel, false, false},
	} {
		lines := loggedTables(t, tc.level, func(a, b *Worker) {
			if _, err := a.NewEndpoint(EndpointParams{Address: b.own.address}); err != nil {
				t.Fatal(err)
			}
		}, "PROTO_INFO", tc.setting)
		all := strings.Join(lines, "\n")
		if strings.Contains(all, tag) != tc.tag || strings.Contains(all, stream) != tc.stream {
			t.Errorf("%s at %v: want tagged %v, rendezvous %v in\n%s", tc.setting, tc.level, tc.tag, tc.stream, all)
		}
	}
}

// TestProtoInfoUsed checks that PROTO_INFO=used prints only the tables that were used, when the
// worker is closed, with the number of uses of each range.
func TestProtoInfoUsed(t *testing.T) {
	lines := loggedTables(t, zapcore.InfoLevel, func(a, b *Worker) {
		for range 3 {
			exchangeBetween(t, a, b, 8)
		}
		exchangeBetween(t, a, b, 4<<20)
	}, "PROTO_INFO", "used", "RNDV_SCHEME", "put_zcopy")
	all := strings.Join(lines, "\n")
	for _, want := range []string{
		`Count \|\s+Range`,
		`synchronous tagged message`,
		`\n\|\s+3 \|\s+0\.\..* eager`,
		`\n\|\s+1 \|\s+\S+\.\.inf \| .*rendezvous`,
		`rendezvous data send`,
		`rendezvous data fetch`,
	} {
		if !regexp.MustCompile(want).MatchString(all) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "tagged message by ucp_tag_send* from") {
		t.Errorf("a table that was not used:\n%s", all)
	}
}

// TestProtoInfoDir checks that the printed tables are also written to files in PROTO_INFO_DIR, with
// the reasons for the choices.
func TestProtoInfoDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of-%p")
	loggedTables(t, zapcore.InfoLevel, func(a, b *Worker) {
		if _, err := a.NewEndpoint(EndpointParams{Address: b.own.address}); err != nil {
			t.Fatal(err)
		}
	}, "PROTO_INFO", "*tagged*", "PROTO_INFO_DIR", dir)
	files, err := filepath.Glob(log.ExpandName(dir) + "/*tagged_message*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(text), "not egr/") {
			t.Errorf("%s: %v\n%s", f, err, text)
		}
	}
}

// TestProtoInfoValues checks which values PROTO_INFO accepts and how they are printed.
func TestProtoInfoValues(t *testing.T) {
	for in, want := range map[string]string{"Y": "y", "0": "n", "AUTO": "auto", "Used": "used", "*Tag*GPU*": "*tag*gpu*", "": "!", "[a": "!"} {
		var v protoInfo
		got := "!"
		if v.ParseConfig(in) == nil {
			got = v.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
