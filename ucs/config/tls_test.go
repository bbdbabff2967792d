package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTransportsParse(t *testing.T) {
	for in, printed := range map[string]string{
		"all": "all", "tcp": "tcp", "^sm,self": "^sm,self", `\rc,ud:aux`: `\rc,ud:aux`,
	} {
		var tl Transports
		if err := tl.ParseConfig(in); err != nil || tl.String() != printed {
			t.Errorf("%q = %q, %v", in, tl, err)
		}
	}
	for _, in := range []string{"", ",", "^", "all,tcp"} {
		var tl Transports
		if err := tl.ParseConfig(in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
	if (Transports{}).Use("tcp") != UseNone {
		t.Error("the zero value allows something")
	}
}

// TestTransportsUse compares with the results of ucp_is_resource_in_transports_list of C UCX
// 1.22.0.
func TestTransportsUse(t *testing.T) {
	const (
		none = UseNone
		aux  = UseAuxiliary
		any  = UseAny
	)
	for _, tc := range []struct {
		tls  string
		uses map[string]Use
	}{
		{"all", map[string]Use{"tcp": any, "self": any, "rc_verbs": any, "whatever": any}},
		{"tcp", map[string]Use{"tcp": any, "self": none, "posix": none, "tcpx": none}},
		{"tcp,self", map[string]Use{"tcp": any, "self": any, "sysv": none}},
		{"sm", map[string]Use{"posix": any, "sysv": any, "xpmem": any, "cma": any, "knem": any, "self": none, "tcp": none}},
		{"shm", map[string]Use{"posix": any, "cma": any, "tcp": none}},
		{"mm", map[string]Use{"posix": any, "sysv": any, "cma": none}},
		{"posix", map[string]Use{"posix": any, "sysv": none}},
		{"^sm", map[string]Use{"posix": none, "cma": none, "tcp": any, "self": any, "rc_verbs": any}},
		{"^tcp,self", map[string]Use{"tcp": none, "self": none, "posix": any}},
		{"ib", map[string]Use{"rc_verbs": any, "ud_verbs": any, "dc_mlx5": any, "srd": any, "tcp": none}},
		{"cuda", map[string]Use{"cuda_copy": any, "gdr_copy": any, "rocm_copy": none}},

		// A connected transport also selects its datagram transport as an auxiliary one.
		{"rc", map[string]Use{"rc_verbs": any, "rc_mlx5": any, "ud_verbs": aux, "ud_mlx5": aux, "dc_mlx5": none}},
		{"rc_v", map[string]Use{"rc_verbs": any, "ud_verbs": aux, "ud_mlx5": none, "rc_mlx5": none}},
		{"rc_verbs", map[string]Use{"rc_verbs": any, "ud_verbs": none}},
		{"rc_verbs,ud_verbs:aux", map[string]Use{"rc_verbs": any, "ud_verbs": aux}},
		{"rc,ud", map[string]Use{"ud_verbs": any, "rc_mlx5": any}},
		{"ud", map[string]Use{"ud_verbs": any, "ud_mlx5": any, "rc_verbs": none}},
		{"ud:aux", map[string]Use{"ud_verbs": aux, "ud_mlx5": aux, "rc_verbs": none}},
		{"ib:aux", map[string]Use{"ud_verbs": aux, "rc_verbs": aux}},

		// A strict name is no alias.
		{`\rc`, map[string]Use{"rc": any, "rc_verbs": none, "ud_verbs": none}},
		{`\rc_verbs`, map[string]Use{"rc_verbs": any, "ud_verbs": none}},
		{`\ud_verbs:aux`, map[string]Use{"ud_verbs": aux}},

		// An excluded datagram transport still serves the transports that depend on it, unless
		// these or its auxiliary use are excluded too.
		{"^ud_verbs", map[string]Use{"ud_verbs": aux, "rc_verbs": any}},
		{"^ud", map[string]Use{"ud_verbs": aux, "ud_mlx5": aux}},
		{"^ud,ud:aux", map[string]Use{"ud_verbs": none, "ud_mlx5": none, "rc_verbs": any}},
		{"^ud_verbs,ud_verbs:aux", map[string]Use{"ud_verbs": none, "ud_mlx5": any}},
		{"^ud_verbs:aux", map[string]Use{"ud_verbs": any}},
		{"^ib", map[string]Use{"ud_verbs": none, "rc_verbs": none, "tcp": any}},
		{"^rc", map[string]Use{"rc_verbs": none, "rc_mlx5": none, "ud_verbs": any}},
	} {
		var tl Transports
		if err := tl.ParseConfig(tc.tls); err != nil {
			t.Errorf("%q: %v", tc.tls, err)
			continue
		}
		for name, want := range tc.uses {
			if got := tl.Use(name); got != want {
				t.Errorf("UCX_TLS=%s: use of %s = %d, want %d", tc.tls, name, got, want)
			}
		}
	}
}

func TestTransportsMissing(t *testing.T) {
	here := []string{"self", "tcp", "posix", "ud_verbs"}
	for _, tc := range []struct {
		tls  string
		want []string
	}{
		{"all", nil},
		{"^nothing", nil},
		{`tcp,sm,\self,ud:aux,rc`, nil}, // rc includes its datagram transport
		{"tpc,cuda,self", []string{"tpc", "cuda"}},
	} {
		var tl Transports
		if err := tl.ParseConfig(tc.tls); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, tl.Missing(here)); diff != "" {
			t.Errorf("UCX_TLS=%s: %s", tc.tls, diff)
		}
	}
}

// TestUnknownTransports checks that names that no transport has are distinguished from names of
// transports that are not available here.
func TestUnknownTransports(t *testing.T) {
	for value, want := range map[string][]UnknownName{
		"all":                   nil,
		"tcp,rc,ud_v:aux,self":  nil,
		`\posix,cuda_copy,knem`: nil,
		"here":                  nil,
		"tpc":                   {{Name: "tpc", Nearest: "tcp"}},
		"^tpc":                  {{Name: "tpc", Nearest: "tcp"}},
		`foo,\slef,rc_verb:aux,tcp`: {
			{Name: "foo"}, {Name: `\slef`, Nearest: "self"}, {Name: "rc_verb:aux", Nearest: "rc_verbs"},
		},
	} {
		var tl Transports
		if err := tl.ParseConfig(value); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, tl.UnknownTransports([]string{"here"})); diff != "" {
			t.Errorf("%s: %s", value, diff)
		}
	}
}

// TestNearestTransport: the limit is that of settings, and names of the same letters are one edit
// away.
func TestNearestTransport(t *testing.T) {
	known := map[string]bool{"rc": true, "ud": true, "tcp": true, "self": true, "rc_mlx5": true}
	for name, want := range map[string]string{
		"":                         "",
		"r":                        "rc",
		"zz":                       "",
		"cr":                       "rc",
		"u_":                       "ud",
		"rcab":                     "rc",
		"rcabc":                    "rc",
		"rcabcd":                   "",
		"elfs":                     "self",
		"5xlm_cr":                  "rc_mlx5",
		"rc_mlx":                   "rc_mlx5",
		"mlx5":                     "",
		strings.Repeat("t", 1<<16): "",
	} {
		if got := nearestTransport(name, known); got != want {
			t.Errorf("nearest to %.20q = %q, want %q", name, got, want)
		}
	}
}
