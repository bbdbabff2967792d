//go:build linux

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRDMAInfo compares what ucx_info prints about RDMA devices in Go and in C: -d line by line,
// except for the listed differences, the lanes of -e, the resources of -p, and the length of the
// address of -w. Both sides choose lanes and protocols by these values.
func TestRDMAInfo(t *testing.T) {
	onVeth(t)
	c, ours := forRDMA(buildC(t)), buildGo(t)
	for _, theirs := range c {
		t.Run(theirs.name, func(t *testing.T) {
			t.Run("devices", func(t *testing.T) { sameDevices(t, ours, theirs) })
			for _, tls := range []string{reliable, datagram} {
				for _, features := range []string{"tra", "trae"} {
					t.Run("lanes/"+tls+"/"+features, func(t *testing.T) { sameLanes(t, ours, theirs, tls, features) })
				}
				t.Run("context/"+tls, func(t *testing.T) { sameContext(t, ours, theirs, tls) })
			}
		})
	}
}

// infoDifference is a line of -d that differs between C and Go, and why.
type infoDifference struct {
	release string // of C; "": all
	c, ours string // "": no such line
	why     string
}

var infoDifferences = []infoDifference{
	{"1.22", "# memory types: host (access,reg,cache)", "# memory types: host (access,reg)",
		"registrations of the caller's memory are not kept: it is Go's, and may move on"},
	{"1.13", "", "# memory types: host (access,reg)", "1.13 does not print them"},
	{"1.13", "# register: unlimited, cost: 180 nsec", "# register: unlimited, cost: 16000 + 0.060 * N nsec",
		"as 1.22, what a registration costs, not what it costs to find it"},
	{"1.13", "# am header: <= 3952", "# am header: <= 3992", "as 1.22, whose descriptors are 40 bytes shorter"},
}

func sameDevices(t *testing.T, ours, theirs program) {
	got, want := devicesOf(info(t, ours, nil, "-d")), devicesOf(info(t, theirs, nil, "-d"))
	for _, d := range infoDifferences {
		if d.release != "" && d.release != majorMinor(theirs.name) {
			continue
		}
		if d.c != "" && !slices.Contains(want, d.c) || d.ours != "" && !slices.Contains(got, d.ours) {
			t.Errorf("no difference any more: C %q, ours %q, %s", d.c, d.ours, d.why)
		}
		other := func(line string) bool { return line == d.c || line == d.ours }
		got, want = slices.DeleteFunc(got, other), slices.DeleteFunc(want, other)
	}
	same(t, got, want)
}

var (
	domainLine = regexp.MustCompile(`^# Memory domain:`)
	blanks     = regexp.MustCompile(` +`)
)

// devicesOf returns the lines about domains of RDMA devices, with single blanks. It sorts the
// domains by name, as C lists them in the kernel's order, the oldest device first.
func devicesOf(lines []string) []string {
	var domain []string
	var domains [][]string
	flush := func() {
		if slices.Contains(domain, "# Component: ib") {
			domains = append(domains, domain)
		}
		domain = nil
	}
	inside := false
	for _, l := range lines {
		switch l = strings.TrimSpace(blanks.ReplaceAllString(l, " ")); {
		case domainLine.MatchString(l):
			flush()
			inside = true
		case strings.HasPrefix(l, "# Connection manager:"), strings.HasPrefix(l, "# RDMA device:"):
			flush()
			inside = false
		}
		if inside && l != "" && l != "#" {
			domain = append(domain, l)
		}
	}
	flush()
	slices.SortFunc(domains, slices.Compare[[]string])
	return slices.Concat(domains...)
}

// sameLanes compares the lanes to a worker's own address over two devices. C does not print the
// lanes of one-sided access. 1.22 omits a single lane for message data, and numbers lanes of a kind
// in reverse order. 1.13 omits the longest messages.
func sameLanes(t *testing.T, ours, theirs program, tls, features string) {
	env := []string{"UCX_TLS=" + tls, "UCX_NET_DEVICES=rxe0:1,rxe1:1"}
	got, want := lanesOf(info(t, ours, env, "-e", "-u", features)), lanesOf(info(t, theirs, env, "-e", "-u", features))
	if len(want) == 0 {
		t.Fatal("C shows no lanes")
	}
	same(t, got, want)
}

var (
	untoldOfLanes = regexp.MustCompile(` (seg \d+|rma#\d+|am_bw#\d+)`)
	rxeDevice     = regexp.MustCompile(`rxe\d+`)
	laneNumbers   = regexp.MustCompile(`(rma_bw|amo)#\d+`)
)

// lanesOf returns the lines about lanes, with devices, which are alike, numbered in order of
// appearance.
func lanesOf(lines []string) (list []string) {
	names := make(map[string]string)
	number := func(device string) string {
		if names[device] == "" {
			names[device] = fmt.Sprintf("device%d", len(names))
		}
		return names[device]
	}
	for _, l := range lines {
		if !strings.Contains(l, "lane[") {
			continue
		}
		l = untoldOfLanes.ReplaceAllString(strings.TrimSpace(l), "")
		l = rxeDevice.ReplaceAllStringFunc(l, number)
		list = append(list, blanks.ReplaceAllString(laneNumbers.ReplaceAllString(l, "$1"), " "))
	}
	return list
}

// sameContext compares the resources of contexts and workers over two devices.
func sameContext(t *testing.T, ours, theirs program, tls string) {
	env := []string{"UCX_TLS=" + tls, "UCX_NET_DEVICES=rxe0:1,rxe1:1"}
	args := []string{"-p", "-w", "-u", "tra"}
	announced := 0
	if majorMinor(theirs.name) == "1.22" {
		announced = 2 // bytes for the release, which Go does not announce
	}
	got, want := resourcesOf(info(t, ours, env, args...), 0), resourcesOf(info(t, theirs, env, args...), announced)
	if len(want) < 3 {
		t.Fatalf("C shows %q", want)
	}
	same(t, got, want)
}

var (
	contextNumbers = regexp.MustCompile(`\b(component|md|dev|resource) +\d+`)
	addressLength  = regexp.MustCompile(`address: (\d+) bytes`)
)

// resourcesOf returns the lines about domains and resources of RDMA devices, and the length of the
// worker's address less own bytes. Numbers are removed, as C also counts components that Go lacks;
// Go also lists unused resources.
func resourcesOf(lines []string, own int) (list []string) {
	for _, l := range lines {
		if m := addressLength.FindStringSubmatch(l); m != nil {
			n, _ := strconv.Atoi(m[1])
			list = append(list, fmt.Sprintf("address: %d bytes", n-own))
		}
		if strings.Contains(l, "rxe") && !strings.Contains(l, "not used") {
			list = append(list, blanks.ReplaceAllString(contextNumbers.ReplaceAllString(strings.TrimSpace(l), "$1"), " "))
		}
	}
	slices.Sort(list)
	return list
}

// same compares lists of lines.
func same(t *testing.T, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		line := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(nothing)"
		}
		if g, w := line(got), line(want); g != w {
			t.Errorf("line %d: %q, C has %q", i, g, w)
		}
	}
	t.Logf("all of ours:\n%s\nof C:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// info runs the ucx_info that is in the folder of ucx_perftest.
func info(t *testing.T, p program, env []string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(p.tool), "ucx_info"), args...)
	cmd.Env = slices.Concat(os.Environ(), p.env, env, []string{"UCX_WARN_UNUSED_ENV_VARS=n"})
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %v\n%s", p.name, cmd.Args, err, out)
	}
	return strings.Split(string(out), "\n")
}
