package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/uct"
)

// decoded encodes a value as JSON and decodes it again.
func decoded(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at returns the member at a path of object names and array indexes.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if v = m[p]; !ok || v == nil && !hasKey(m, p) {
				t.Fatalf("no member %q on the way to %v", p, path)
			}
		case int:
			list, ok := v.([]any)
			if !ok || p >= len(list) {
				t.Fatalf("no element %d on the way to %v", p, path)
			}
			v = list[p]
		}
	}
	return v
}

func hasKey(m map[string]any, k string) bool {
	_, ok := m[k]
	return ok
}

func TestDevicesJSON(t *testing.T) {
	doc := decoded(t, devicesJSON(capturedDomains()))
	bits := []any{32.0, 64.0}
	tests := []struct {
		path []any
		want any
	}{
		{[]any{"memory_domains", 0, "name"}, "self"},
		{[]any{"memory_domains", 0, "register"}, map[string]any{"max": nil, "cost": map[string]any{"fixed": 0.0, "per_unit": 0.0}}},
		{[]any{"memory_domains", 0, "rkey_size"}, 0.0},
		{[]any{"memory_domains", 0, "rkey_ptr"}, true},
		{[]any{"memory_domains", 0, "memory_types"}, map[string]any{"host": []any{"access", "reg_nonblock", "reg", "cache"}}},
		{[]any{"memory_domains", 0, "transports", 0, "type"}, "loopback"},
		{[]any{"memory_domains", 0, "transports", 0, "system_device"}, nil},
		{[]any{"memory_domains", 0, "transports", 0, "operations"}, map[string]any{
			"put_short": map[string]any{"max": 4294967295.0}, "put_bcopy": map[string]any{"max": nil},
			"get_bcopy": map[string]any{"max": nil}, "am_short": map[string]any{"max": 8192.0}, "am_bcopy": map[string]any{"max": 8192.0},
		}},
		{[]any{"memory_domains", 0, "transports", 0, "atomics"}, map[string]any{
			"add": bits, "and": bits, "or": bits, "xor": bits, "fadd": bits, "fand": bits, "for": bits, "fxor": bits,
			"swap": bits, "cswap": bits,
		}},
		{[]any{"memory_domains", 0, "transports", 0, "max_endpoints"}, nil},
		{[]any{"memory_domains", 1, "memory_types"}, map[string]any{}},
		{[]any{"memory_domains", 1, "connection_manager"}, map[string]any{"max_conn_priv": 2064.0}},
		{[]any{"memory_domains", 1, "transports", 1, "device"}, "lo"},
		{[]any{"memory_domains", 1, "transports", 1, "operations", "am_zcopy"}, map[string]any{
			"min": 0.0, "max": 65536.0, "max_iov": 6.0, "align": 1.0, "mtu_align": 0.0, "max_header": 8037.0,
		}},
		{[]any{"memory_domains", 1, "transports", 1, "connection"}, []any{"ep", "iface"}},
		{[]any{"memory_domains", 1, "transports", 1, "max_endpoints"}, 256.0},
		{[]any{"memory_domains", 1, "transports", 1, "error_handling"}, []any{"peer failure", "ep_check", "keepalive"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, at(t, doc, tt.path...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.path, diff)
		}
	}
	if m := at(t, doc, "memory_domains", 1).(map[string]any); hasKey(m, "register") || hasKey(m, "allocate") || hasKey(m, "rkey_size") {
		t.Errorf("tcp has members for what it cannot: %v", m)
	}
}

func TestDevicesJSONFailures(t *testing.T) {
	doc := decoded(t, devicesJSON([]domain{
		{component: "a", name: "a0", err: errors.New("domain")},
		{component: "b", name: "b0", attr: &uct.MDAttr{}, ifaces: []iface{
			{resource: uct.Resource{Transport: "b", Device: "x"}, err: errors.New("iface")},
		}},
	}))
	if got := at(t, doc, "memory_domains", 0, "error"); got != "domain" {
		t.Errorf("domain: error %v", got)
	}
	if got := at(t, doc, "memory_domains", 0, "transports"); got == nil {
		t.Error("domain: transports is null, not []")
	}
	failed := at(t, doc, "memory_domains", 1, "transports", 0).(map[string]any)
	if failed["error"] != "iface" || hasKey(failed, "latency") {
		t.Errorf("iface: %v", failed)
	}
	if got := decoded(t, devicesJSON(nil)); !cmp.Equal(got, map[string]any{"memory_domains": []any{}}) {
		t.Errorf("nothing: %v", got)
	}
}
