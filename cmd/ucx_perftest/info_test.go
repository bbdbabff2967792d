//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestPairInfo: the client prints, after the columns, how the library carries out the operation.
func TestPairInfo(t *testing.T) {
	for args, want := range map[string]string{
		"-t tag_lat":                "tag eager short tcp/lo",
		"-t tag_sync_bw":            "tag eager copy-in tcp/lo",
		"-t ucp_am_lat":             "am eager short tcp/lo",
		"-t ucp_am_bw -s 50000 -T2": "am eager zero-copy tcp/lo",
		"-t stream_bw":              "stream eager short tcp/lo",
		"-t ucp_put_lat":            "put",
		"-t ucp_fadd":               "fetching atomic by messages tcp/lo",
	} {
		_, client, errs := sides(t, nil, append(strings.Fields(args), "-X", "-n", "20", "-w", "3", "-f"))
		if errs != [2]error{} {
			t.Errorf("%s: server: %v, client: %v", args, errs[0], errs[1])
		}
		lines := strings.Split(strings.TrimSpace(client), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "  "+want) {
			t.Errorf("%s: the client printed %q, want %q in it", args, last, want)
		}
	}
}
