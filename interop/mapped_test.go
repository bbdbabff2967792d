//go:build linux

package interop

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestMapped checks that a Go receiver maps the sender's memory if UCX has allocated it, so that
// the data is copied once. The mapping stays for the next message, and no longer than the endpoint.
func TestMapped(t *testing.T) {
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	where.apart(t)
	before := where.sharedMemory(t)
	const size = 32 << 20 // more than rings and their buffers
	for _, over := range []route{posix, posixFiles, sysv, posixCMA, allTransports} {
		for _, c := range []struct {
			layout string
			want   int
		}{{"contig", 0}, {allocated, 1}} {
			t.Run(over.name+"/"+c.layout, func(t *testing.T) {
				p, err := newPair(where, ours, ours, settings[0], over)
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if err := expected(c.layout, "contig", "async")(p.ours, p.theirs, &p.msgs, size); err != nil {
						t.Fatal(err, p.abort())
					}
					if got := sharedMappings(t, p.theirs, size); got != c.want {
						t.Errorf("%d shared mappings of at least %d bytes at the receiver, want %d", got, size, c.want)
					}
				}
				if err := p.close("none"); err != nil {
					t.Error(err)
				}
				where.nothingLeft(t, before)
			})
		}
	}
}

// sharedMappings counts the shared mappings of a peer with at least size bytes.
func sharedMappings(t *testing.T, p *peer, size uint64) int {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", p.process.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		from, to, _ := strings.Cut(fields[0], "-")
		low, err1 := strconv.ParseUint(from, 16, 64)
		high, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q", line)
		}
		if strings.HasSuffix(fields[1], "s") && high-low >= size {
			count++
		}
	}
	return count
}
