package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shownTransports are the transports whose output is compared with C's.
const shownTransports = "self,posix,sysv,cma,tcp"

// ofTool runs C's tool.
func ofTool(t *testing.T, tool, args string) string {
	t.Helper()
	cmd := exec.Command(tool, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "UCX_TLS="+shownTransports)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	return string(out)
}

// ofOurs runs this tool.
func ofOurs(t *testing.T, args string) string {
	t.Helper()
	t.Setenv("UCX_TLS", shownTransports)
	var stdout, stderr strings.Builder
	if code := run(strings.Fields(args), &stdout, &stderr); code != exitOK {
		t.Fatalf("ucx_info %s: exit code %d: %s", args, code, stderr.String())
	}
	return stdout.String()
}

// shapes replace text that differs between the tools, or between runs.
var shapes = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`^#  registered on: (\w+ )*$`), "#  registered on: DOMAINS "},
	{regexp.MustCompile(`^#      resource \d+  :  md \d+  dev \d+  flags -- \w+/\w+$`), "#      resource N  :  md N  dev N  flags -- NAME"}, // see TestContextAsC
	{regexp.MustCompile(`^# UCP worker '[^']+:\d+'$`), "# UCP worker 'HOST:PID'"},
	{regexp.MustCompile(`^(#                 atomics: )(\d+:\w+/\w+(, )?)*$`), "${1}RESOURCES"},
	{regexp.MustCompile(`^(#                 lane\[)\d+(\]:) [ \d]\d:\w+/\w+\.\d+ md\[\d+\] +-> md\[\d+\]/\w+/sysdev\[\d+\]( seg \d+)?( [a-z_]+(#\d+)?)*$`), "${1}N${2} LANE"},
	{regexp.MustCompile(`^(#                 lane\[\d+\]: cm )\w+$`), "${1}MANAGER"}, // 1.22 names the first one
	{regexp.MustCompile(`^    sizeof\(.*\) = \.+ \d+ +$`), "    sizeof(TYPE)"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "ADDRESS"},
	{regexp.MustCompile(`-?\d+(\.\d+)?`), "N"},
}

// shape reduces a text to what is the same everywhere. Of equal lines in sequence one is kept.
func shape(text string) []string {
	var list []string
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		for _, s := range shapes {
			l = s.re.ReplaceAllString(l, s.to)
		}
		if strings.HasPrefix(l, "# +-") || strings.HasPrefix(l, "# | ") {
			l = "# TABLE" // of protocols, which are not compared
		}
		if ownLine.MatchString(l) {
			continue
		}
		if len(list) == 0 || list[len(list)-1] != l {
			list = append(list, l)
		}
	}
	return list
}

// ownLine matches lines that only this tool prints. A blank line follows each group of them.
var ownLine = regexp.MustCompile(`^#      not used    :  |^#                not used: |^#           endpoint: |^#          peer uuid: `)

// TestUCPAsC compares the output about the protocol layer with C's tool.
func TestUCPAsC(t *testing.T) {
	for _, tool := range cTools(t) {
		t.Run(tool, func(t *testing.T) {
			recent := strings.Contains(ofTool(t, tool, "-d -t self"), "memory types:")
			for _, args := range []string{
				"-m 1M -u r", "-m 64k -u ta -D net", "-p -u tr", "-p -u tr -D shm", "-w -u t", "-w -u ra", "-wp -u a -n 4 -N 2",
				"-e -u t", "-e -u ra", "-e -u tr -P intra", "-e -u t -P inter", "-e -u te -P intra", "-pwe -u rat -D shm",
				"-e -A 127.0.0.1 -u t", "-e -A 127.0.0.1 -u t -P intra", "-e -u td", "-y", "-T",
			} {
				if !recent && (strings.Contains(args, "-A") || strings.ContainsAny(args, "dyT")) {
					continue // 1.13 prints other things, or lacks the option
				}
				want, got := shape(ofTool(t, tool, args)), shape(ofOurs(t, args))
				if !recent {
					if strings.HasPrefix(args, "-m") {
						got = slices.DeleteFunc(got, func(l string) bool { return strings.HasPrefix(l, "#  rkey size") })
					}
					if strings.Contains(args, "e") { // 1.13 lists thresholds, not protocols
						want = upTo(want, "#                tag_send")
						got = upTo(got, "# TABLE")
						want, got = upTo(want, "#                  put[N]"), upTo(got, "#                  put[N]")
						want, got = upTo(want, "#                 am_send"), upTo(got, "#                 am_send")
					}
				}
				if args == "-y" {
					want, got = withoutRDMA(want), withoutRDMA(got)
				}
				// Which features have a table of protocols is not compared.
				drop := func(l string) bool { return l == "# TABLE" || absentComponent.MatchString(l) }
				want, got = slices.Compact(slices.DeleteFunc(want, drop)), slices.Compact(slices.DeleteFunc(got, drop))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-C +ours):\n%s", args, diff)
				}
			}
		})
	}
}

// withoutRDMA leaves out the types that C shows if it was built with RDMA.
func withoutRDMA(list []string) (rest []string) {
	skip := false
	for _, l := range list {
		if strings.HasSuffix(l, ":") {
			skip = slices.Contains([]string{"IB:", "CMA:", "RC:", "DC:", "UD:"}, l)
		}
		if !skip && l != "" {
			rest = append(rest, l)
		}
	}
	return rest
}

// upTo returns the lines of a list before the first one with a prefix.
func upTo(list []string, prefix string) []string {
	for i, l := range list {
		if strings.HasPrefix(l, prefix) {
			return list[:i]
		}
	}
	return list
}

// absentComponent matches lines of components that only C has.
var absentComponent = regexp.MustCompile(`^#     component \S+ +:  (cuda\w*|rocm\w*|ze\w*|gdr\w*|gga|xpmem|knem|mlx5|efa|srd|sockcm)$`)

// unlikeC lists lines of -p that may differ from C's, with the reason.
var unlikeC = []struct {
	re      *regexp.Regexp
	to, why string
}{
	{regexp.MustCompile(`(?m)^# memory: .*\n# create time: .*\n#\n`), "", "measured"},
	{regexp.MustCompile(`(?m)^(#      not used    :  .*\n)+#\n`), "", "C does not say why it leaves a transport out"},
	{regexp.MustCompile(`self/memory0`), "self/memory", "the device's name before 1.22"},
	{regexp.MustCompile(` dev \d+ +flags`), " dev N flags", "before 1.22 the devices of self and of shared memory have different names"},
}

// number is the number of a component: C also counts components that are missing here.
var number = regexp.MustCompile(`^(#     component |#            md \d+  :  component )\d+`)

// TestContextAsC compares components, domains and resources of a context line by line: names,
// numbers and order.
func TestContextAsC(t *testing.T) {
	plain := func(text string) []string {
		for _, u := range unlikeC {
			text = u.re.ReplaceAllString(text, u.to)
		}
		lines := slices.DeleteFunc(strings.Split(text, "\n"), absentComponent.MatchString)
		for i := range lines {
			lines[i] = number.ReplaceAllString(lines[i], "${1}N")
		}
		return lines
	}
	for _, tool := range cTools(t) {
		for _, args := range []string{"-p -u t", "-p -u tr -D net", "-p -u ta -D shm", "-p -u r -D self"} {
			if diff := cmp.Diff(plain(ofTool(t, tool, args)), plain(ofOurs(t, args))); diff != "" {
				t.Errorf("%s %s (-C +ours):\n%s", tool, args, diff)
			}
		}
	}
}

// TestSameResourcesAsC compares the domains and resources of a context.
func TestSameResourcesAsC(t *testing.T) {
	names := func(text string) []string {
		var list []string
		for _, l := range strings.Split(text, "\n") {
			if _, name, ok := strings.Cut(l, "flags -- "); ok {
				list = append(list, strings.Replace(name, "memory0", "memory", 1))
			}
		}
		slices.Sort(list)
		return list
	}
	for _, tool := range cTools(t) {
		for _, args := range []string{"-p -u t", "-p -u t -D net", "-p -u t -D shm", "-p -u t -D self"} {
			if diff := cmp.Diff(names(ofTool(t, tool, args)), names(ofOurs(t, args))); diff != "" {
				t.Errorf("%s %s (-C +ours):\n%s", tool, args, diff)
			}
		}
	}
}

// TestUCPValues checks numbers and names in the output.
func TestUCPValues(t *testing.T) {
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"-m 100m,host -u r", []string{`allocated 100M at address 0x[0-9a-f]+000 with sysv, pagesize: 4K`, `registered on: (\w+ )*sysv `, `rkey size: \d+`}},
		{"-m 1m -u r -D net", []string{`with mmap, `, `registered on: tcp \n`, `rkey size: 9\n`}},
		{"-p -u t -D self", []string{`flags -- self/memory\n`, `not used    :  tcp/lo: not in the list of devices`}},
		{"-e -u tr -P intra", []string{`lane\[0\].*posix/memory.* am`, `\| ucx_info intra-node +\|`, `cma/memory`}},
		{"-e -u t", []string{`lane\[0\].*self/memory.* am`, `\| ucx_info self +\|`}},
		{"-e -u t -D net", []string{`lane\[0\].*tcp/`, `\| ucx_info self +\|`}},
		{"-e -u t", []string{`^#\n# UCP endpoint \n#\n#               peer: <no debug data>\n`, `\+\n#           endpoint: ucp-ep-\S+\n#          peer uuid: 0x[0-9a-f]+\n#\n$`}},
		{"-e -u t -P inter", []string{`lane\[0\].*tcp/`, `\| ucx_info inter-node +\|`}},
		{"-e -A 127.0.0.1 -u t", []string{`lane\[0\]: cm tcp\n`, `lane\[1\]: .* am`}},
		{"-e -A ::1 -6 -u te -D net", []string{`lane\[0\]: cm tcp\n`, `lane\[1\]: .*tcp/lo.* am`}},
		{"-y", []string{`UCP:\n`, `sizeof\(ucp\.Request\) = \.+ [1-9]\d+ `}},
		{"-c -F POSIX_HUGE", []string{`^UCX_POSIX_HUGETLB_MODE=try\n$`}},
	} {
		out := ofOurs(t, tt.args)
		for _, want := range tt.want {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, out)
			}
		}
	}
}

func TestCopyBandwidth(t *testing.T) {
	var b strings.Builder
	if err := writeCopyBandwidth(&b, 8192, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	if want := `^# Using .*\n# Memcpy bandwidth:\n#           4096 bytes: \d+\.\d{3} MB/s\n#           8192 bytes: \d+\.\d{3} MB/s\n$`; !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("not %q:\n%s", want, b.String())
	}
}
