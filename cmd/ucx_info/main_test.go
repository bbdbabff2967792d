package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandLine(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		code   int
		stdout string // beginning of the output
		stderr string
	}{
		{"nothing", "", exitNothing, "Usage:", ""},
		{"help", "-h", exitOK, "Usage:", ""},
		{"long help", "--help", exitOK, "Usage:", ""},
		{"option without value", "-c -F", exitUsage, "Usage:", "ucx_info: option requires an argument -- 'F'\n"},
		{"unknown option", "-z", exitUsage, "Usage:", "ucx_info: invalid option -- 'z'\n"},
		{"unexpected argument", "-v host", exitUsage, "Usage:", "ucx_info: unexpected argument \"host\"\n"},
		{"types", "-y", exitOK, "UCS:\n    sizeof(ucs.Status) = ............................ ", ""},
		{"topology", "-T", exitOK, "#\n# System topology\n#\n", ""},
		{"IPv6 of nothing", "-6", exitNothing, "Usage:", ""},
		{"no address", "-e -A moon -u t", exitUsage, "", "ucx_info: -A moon: not an IP address of this kind, -6 is for IPv6\n"},
		{"the other kind of address", "-e -A ::1 -u t", exitUsage, "", "ucx_info: -A ::1: not an IP address of this kind, -6 is for IPv6\n"},
		{"operations of devices alone", "-e -u d", exitUsage, "Usage:", "ucx_info: -p, -w, -e and -m need at least one of the features a, r, t, m, with -u\n"},
		{"operations of devices", "-p -u td", exitOK, "#\n# UCP context", ""},
		{"no features", "-p", exitUsage, "Usage:", "ucx_info: -p, -w, -e and -m need at least one of the features a, r, t, m, with -u\n"},
		{"features that do not count", "-e -u sw", exitUsage, "Usage:", "ucx_info: -p, -w, -e and -m need at least one of the features a, r, t, m, with -u\n"},
		{"unknown feature", "-p -u tz", exitUsage, "Usage:", "ucx_info: -u tz: no feature 'z'\n"},
		{"unknown kind of device", "-p -u t -D gpu", exitUsage, "Usage:", "ucx_info: -D gpu: not all, shm, net or self\n"},
		{"unknown place", "-e -u t -P moon", exitUsage, "Usage:", "ucx_info: -P moon: not self, intra or inter\n"},
		{"not a number", "-p -u t -n some", exitUsage, "Usage:", "ucx_info: -n some: not a number of endpoints\n"},
		{"no memory", "-m 0 -u t", exitFailure, "", "ucx_info: ucp: memory size \"0\": need more than 0 bytes: invalid parameter\n"},
		{"active messages", "-p -u tm", exitOK, "#\n# UCP context", ""},
		{"streams", "-e -u ts", exitOK, "#\n# UCP endpoint", ""},
		{"exported memory", "-m 1m -u rx", exitFailure, "<Failed to create UCP context>\n", "ucx_info: ucp: feature exported_memh: no transport of this library can export or import memory: unsupported operation\n"},
		{"memory elsewhere", "-m 1m,cuda -u t", exitFailure, "", "ucx_info: ucp: memory type \"cuda\": only host memory can be allocated: invalid parameter\n"},
		{"some settings", "-c -F SELF_SEG", exitOK, "UCX_SELF_SEG_SIZE=8K\n", ""},
		{"version", "-v", exitOK, "# Library version: 1.22.0\n# Library path: ", ""},
		{"cluster in C's order", "-bv", exitOK, "# Library version: ", ""},
		{"build", "-b", exitOK, "#define ", ""},
		{"hidden settings alone print nothing", "-a", exitOK, "", ""},
		{"settings", "-c", exitOK, "UCX_", ""},
		{"commented settings", "-cC", exitOK, "# UCX_", ""},
		{"explained settings", "-f", exitOK, "# UCX library configuration file", ""},
		{"devices of one transport", "-d -t self", exitOK, "#\n# Memory domain: self\n", ""},
		{"devices of no transport", "-dt none", exitFailure, "", "ucx_info: no device has transport none\n"},
		{"json of nothing", "-json", exitUsage, "", "ucx_info: -json needs one of -v, -b, -s, -d and -c and takes nothing else but -t\n"},
		{"json of too much", "-json -v -p -u t", exitUsage, "", "ucx_info: -json needs one of -v, -b, -s, -d and -c and takes nothing else but -t\n"},
		{"json", "-json -c", exitOK, "{\n  \"config\": [", ""},
		{"json clustered and long", "-v --json", exitOK, "{\n  \"version\": {", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(strings.Fields(tt.args), &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if !strings.HasPrefix(stdout.String(), tt.stdout) || tt.stdout == "" && stdout.Len() > 0 {
				t.Errorf("output %q, want it to begin with %q", stdout.String(), tt.stdout)
			}
			if diff := cmp.Diff(tt.stderr, stderr.String()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSettingsJSON compares the settings in JSON with those in text form.
func TestSettingsJSON(t *testing.T) {
	t.Setenv("UCX_SELF_SEG_SIZE", "16k")
	var plain, stderr strings.Builder
	if code := run([]string{"-c"}, &plain, &stderr); code != exitOK {
		t.Fatalf("-c: exit code %d: %s", code, stderr.String())
	}
	var out strings.Builder
	if code := run([]string{"-c", "-json"}, &out, &stderr); code != exitOK {
		t.Fatalf("-c -json: exit code %d: %s", code, stderr.String())
	}
	var doc document
	if err := json.Unmarshal([]byte(out.String()), &doc); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	seen := false
	for _, s := range doc.Config {
		lines.WriteString(s.Name + "=" + s.Value + "\n")
		if s.Name == "UCX_SELF_SEG_SIZE" {
			seen = true
			if s.Value != "16K" || s.Origin != "environment (UCX_SELF_SEG_SIZE)" {
				t.Errorf("%s is %q from %q", s.Name, s.Value, s.Origin)
			}
		} else if s.Name == "UCX_SELF_MAX_NUM_EPS" && s.Origin != "default" {
			t.Errorf("%s is from %q", s.Name, s.Origin)
		}
	}
	if !seen {
		t.Error("UCX_SELF_SEG_SIZE is missing")
	}
	if diff := cmp.Diff(plain.String(), lines.String()); diff != "" {
		t.Errorf("settings (-text +json):\n%s", diff)
	}
}

func TestMalformedSetting(t *testing.T) {
	t.Setenv("UCX_SELF_SEG_SIZE", "lots")
	var stdout, stderr strings.Builder
	if code := run([]string{"-d"}, &stdout, &stderr); code != exitFailure {
		t.Errorf("exit code %d, want %d", code, exitFailure)
	}
	if !strings.Contains(stderr.String(), "UCX_SELF_SEG_SIZE") {
		t.Errorf("the message does not name the setting: %q", stderr.String())
	}
}
