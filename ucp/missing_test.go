package ucp

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// withSettings opens a context with settings and closes it again.
func withSettings(t *testing.T, settings ...string) error {
	t.Helper()
	cfg, err := ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	for k := 0; k < len(settings); k += 2 {
		if err := cfg.Modify(settings[k], settings[k+1]); err != nil {
			t.Fatal(err)
		}
	}
	c, err := NewContext(ContextParams{Features: FeatureTag}, cfg)
	if err == nil {
		c.Close()
	}
	return err
}

// TestNothingLeft checks that the error of a context without transports describes only those that
// the settings name, and lists unknown names.
func TestNothingLeft(t *testing.T) {
	for _, tc := range []struct {
		settings []string
		want     []string // parts of the error
		not      string   // must not be in the error
	}{
		{[]string{"TLS", "tpc"}, []string{"ucp: unknown transport tpc in UCX_TLS, nearest tcp: "}, "self"},
		{[]string{"TLS", "tpc,xyzzy"}, []string{"nearest tcp; unknown transport xyzzy in UCX_TLS: "}, "self"},
		{[]string{"TLS", "cuda_copy,tpc"}, []string{"no transport cuda_copy", "unknown transport tpc in UCX_TLS, nearest tcp"}, "self"},
		{[]string{"TLS", "self", "SELF_DEVICES", "other"}, []string{"self/memory: not in the list", "no device other (UCX_SELF_DEVICES), available: memory"}, "tcp"},
	} {
		err := withSettings(t, tc.settings...)
		if !errors.Is(err, ucs.ErrNoDevice) {
			t.Errorf("%q: %v", tc.settings, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q does not say %q", tc.settings, err, want)
			}
		}
		if strings.Contains(err.Error(), tc.not) {
			t.Errorf("%q: %q tells of %s, which nobody has asked for", tc.settings, err, tc.not)
		}
	}
}

// TestWarnMissing checks that a context with some transports left warns once about each transport
// or device of the settings that does not exist here.
func TestWarnMissing(t *testing.T) {
	for _, tc := range []struct {
		settings []string
		message  string
		fields   map[string]any
	}{
		{[]string{"TLS", "self,tpc"}, "unknown transport in UCX_TLS", map[string]any{"transport": "tpc", "nearest": "tcp"}},
		{[]string{"TLS", "^xyzzy"}, "unknown transport in UCX_TLS", map[string]any{"transport": "xyzzy"}},
		{[]string{"TLS", "self,cuda_copy"}, "transport in UCX_TLS is not available", map[string]any{"transport": "cuda_copy"}},
		{[]string{"TLS", "self", "SELF_DEVICES", "memory,other"}, "device in UCX_SELF_DEVICES is not available", map[string]any{"device": "other"}},
	} {
		logs := watchLog(t, zapcore.WarnLevel)
		for range 2 {
			if err := withSettings(t, tc.settings...); err != nil {
				t.Fatal(err)
			}
		}
		list := logs.All()
		if len(list) != 1 || list[0].Message != tc.message {
			t.Errorf("%q: warned of %v, want %q once", tc.settings, list, tc.message)
			continue
		}
		for name, want := range tc.fields {
			if got := list[0].ContextMap()[name]; got != want {
				t.Errorf("%q: field %s is %v, want %v", tc.settings, name, got, want)
			}
		}
	}
}

// TestNoDevice checks that the reason why a transport has no device is in the error of a context
// that wants only this transport, and in the warning of a context with other transports.
func TestNoDevice(t *testing.T) {
	for _, comp := range uct.Components() {
		names := comp.Transports()
		_, why := comp.MemoryDomains(nil)
		if !errors.Is(why, ucs.ErrNoDevice) || len(names) == 0 {
			continue // there is a device
		}
		err := withSettings(t, "TLS", names[0])
		if err == nil || !strings.Contains(err.Error(), names[0]+": "+why.Error()) {
			t.Errorf("%s: %v, want %v", names[0], err, why)
		}
		logs := watchLog(t, zapcore.WarnLevel)
		if err := withSettings(t, "TLS", "self,"+names[0]); err != nil {
			t.Fatal(err)
		}
		if list := logs.All(); len(list) != 1 || list[0].ContextMap()["reason"] != why.Error() {
			t.Errorf("%s: warned of %v", names[0], list)
		}
	}
}
