package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/ucs/log/logtest"
)

func TestUnknown(t *testing.T) {
	clean(t)
	w := logtest.Watch(t)
	w.Expect("UCX_TEST_SEG_SIZ")
	w.Expect("UCX_WHATEVER")
	t.Setenv("UCX_TEST_SEG_SIZ", "8k")
	t.Setenv("APP_UCX_WHATEVER", "1")
	t.Setenv("UCX_CONFIG_DIR", "/nowhere")
	t.Setenv("UCX_TEST_MAX_IOV", "1")
	t.Setenv("UCX_", "nothing")
	file := write(t, fileName, "UCX_TESTBASE_MAX_IOVS=1\nOTHER=1\n")
	s := mustRead(t, "APP", "")
	for _, name := range []string{"TEST_WAITS", "TEST_*", "NO_*"} {
		if err := s.Modify(name, "1"); err != nil && name != "TEST_*" {
			t.Fatal(err)
		}
	}
	env := func(v string) Origin { return Origin{Kind: FromEnv, Variable: v} }
	want := []UnknownName{
		{"NO_*", Origin{Kind: FromCall}, "", ""},
		{"TESTBASE_MAX_IOVS", Origin{FromFile, file, 1, "UCX_TESTBASE_MAX_IOVS"}, "TESTBASE_MAX_IOV", ""},
		{"TEST_SEG_SIZ", env("UCX_TEST_SEG_SIZ"), "TEST_SEG_SIZE", ""},
		{"TEST_WAITS", Origin{Kind: FromCall}, "TEST_WAIT", ""},
		{"WHATEVER", env("APP_UCX_WHATEVER"), "", ""},
	}
	if diff := cmp.Diff(want, s.Unknown()); diff != "" {
		t.Error(diff)
	}
	if (*Set)(nil).Unknown() != nil {
		t.Error("nil knows something unknown")
	}
}

// TestUnknownIsReportedOnce checks that an unknown setting is reported once. It depends on names
// that no other test uses.
func TestUnknownIsReportedOnce(t *testing.T) {
	clean(t)
	t.Setenv("UCX_ONLY_ONCE", "1")
	t.Setenv("UCX_WARN_UNUSED_ENV_VARS", "n")
	t.Run("hidden", func(t *testing.T) {
		logtest.Watch(t)
		mustRead(t, "", "")
	})
	t.Setenv("UCX_WARN_UNUSED_ENV_VARS", "y")
	t.Run("first", func(t *testing.T) {
		logtest.Watch(t).Expect("UCX_ONLY_ONCE")
		mustRead(t, "", "")
	})
	t.Run("again", func(t *testing.T) {
		logtest.Watch(t)
		mustRead(t, "", "")
	})
}

func TestLogLevel(t *testing.T) {
	clean(t)
	t.Cleanup(func() { log.SetLevel(log.LevelWarn) })
	log.SetLevel(log.LevelInfo)
	s := mustRead(t, "", "")
	if !log.Enabled(log.LevelInfo) {
		t.Error("a set without a level changed it")
	}
	write(t, fileName, "UCX_LOG_LEVEL=debug\n")
	mustRead(t, "", "")
	if !log.Enabled(log.LevelDebug) || log.Enabled(log.LevelTrace) {
		t.Error("the file's level does not count")
	}
	if err := s.Modify("LOG_LEVEL", "error"); err != nil {
		t.Fatal(err)
	}
	if log.Enabled(log.LevelWarn) {
		t.Error("Modify does not change the level")
	}
	t.Setenv("UCX_LOG_LEVEL", "loud")
	if _, err := Read("", ""); err == nil || !strings.Contains(err.Error(), "FATAL|ERROR|WARN") {
		t.Errorf("Read = %v", err)
	}
}

func TestNearest(t *testing.T) {
	known := map[string]bool{"TLS": true, "NET_DEVICES": true, "TCP_TX_SEG_SIZE": true, "TCP_RX_SEG_SIZE": true}
	for name, want := range map[string]string{
		"NET_DEVICE":                 "NET_DEVICES",
		"NETDEVICES":                 "NET_DEVICES",
		"TL":                         "TLS",
		"TCP_XX_SEG_SIZE":            "TCP_RX_SEG_SIZE", // equally near, the first counts
		"TCP_TX_SEGSIZES":            "TCP_TX_SEG_SIZE",
		"SOMETHING_ELSE":             "",
		"TCP_TX_SEG_LIMIT":           "",
		strings.Repeat("TLS", 1<<16): "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest to %.20s = %q, want %q", name, got, want)
		}
	}
}

// TestDistanceModel compares the edit distance with its recursive definition.
func TestDistanceModel(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		switch {
		case a == "":
			return len(b)
		case b == "":
			return len(a)
		case a[0] == b[0]:
			return slow(a[1:], b[1:])
		}
		return 1 + min(slow(a[1:], b), slow(a, b[1:]), slow(a[1:], b[1:]))
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[AB]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		limit := rapid.IntRange(0, 6).Draw(t, "limit")
		if got, want := distance(a, b, limit), min(slow(a, b), limit+1); got != want {
			t.Fatalf("distance(%q, %q, %d) = %d, want %d", a, b, limit, got, want)
		}
	})
}

func TestNearestName(t *testing.T) {
	for name, want := range map[string]string{
		"TEST_WAITS": "TEST_WAIT", "TEST_WAIT": "", "TEST_*": "", "MEMTYPE_CACHE": "", "CONFIG_DIR": "", "ABC": "", "LOG_LEVL": "LOG_LEVEL",
	} {
		if got := Nearest(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
