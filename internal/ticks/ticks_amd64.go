package ticks

import (
	"os"
	"strings"

	"github.com/ucx-go/ucx/internal/cpu"
)

// invariant says that the TSC runs at one rate in all power states and is synchronized between the
// CPUs. Either the CPU's flags promise the constant rate, or the kernel uses the TSC as its clock
// source, which it does only after checks.
var invariant = hasFlags("/proc/cpuinfo", "constant_tsc", "nonstop_tsc") ||
	isClock("/sys/devices/system/clocksource/clocksource0/current_clocksource")

// isClock reports whether a file like current_clocksource names the TSC.
func isClock(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(text)) == "tsc"
}

// Now returns the time in ticks, from the time stamp counter or else the system's clock.
func Now() uint64 {
	if invariant {
		return cpu.Counter()
	}
	return monotonic()
}

// frequency returns the frequency of the monotonic clock, or 0 for the TSC, which is measured.
func frequency() float64 {
	if invariant {
		return 0
	}
	return 1e9
}

// hasFlags reports whether the first CPU in a file like /proc/cpuinfo has all the flags.
func hasFlags(file string, flags ...string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(text), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "flags" {
			continue
		}
		has := make(map[string]bool)
		for _, f := range strings.Fields(value) {
			has[f] = true
		}
		for _, f := range flags {
			if !has[f] {
				return false
			}
		}
		return true
	}
	return false
}

// TrustCounter makes Now read the TSC even if the CPU does not promise that it runs evenly, as in
// virtual machines, where reading the system's clock may take microseconds. It must be called
// before all other functions of the package.
func TrustCounter() {
	if !invariant {
		invariant = true
		origin = reading()
	}
}
