//go:build linux

package rdmatest

import (
	"slices"
	"strings"
)

// ByDevice sorts the parts of a listing. Each part begins with a line that begins with the prefix;
// lines before the first part stay there. If the kernel does not list the devices, as for the
// simulated device, libibverbs lists them in directory order, which depends on the file system.
func ByDevice(text, prefix string) string {
	var parts []string
	head := true
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), prefix) {
			parts, head = append(parts, ""), false
		}
		if len(parts) == 0 {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += line
	}
	if head || len(parts) == 0 {
		return text
	}
	first := 0
	if !strings.HasPrefix(strings.TrimLeft(parts[0], " \t"), prefix) {
		first = 1
	}
	blank := make([]string, len(parts)) // blank lines after each part, which stay in place
	for i, p := range parts {
		parts[i] = strings.TrimRight(p, "\n")
		blank[i] = p[len(parts[i]):]
	}
	slices.Sort(parts[first:])
	var b strings.Builder
	for i, p := range parts {
		b.WriteString(p + blank[i])
	}
	return b.String()
}
