package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ucx-go/ucx/cmd/internal/ticks"
)

// systemInfo is what -s shows.
type systemInfo struct {
	TimerHz  float64 `json:"timer_hz"`
	Accuracy float64 `json:"timer_accuracy"` // of the timer against the system's clock, 1: exact
	Vendor   string  `json:"cpu_vendor"`
	Model    string  `json:"cpu_model"`
	Product  string  `json:"product"`
}

const unknown = "unknown"

// system describes the machine whose file tree is at root.
func system(root string) systemInfo {
	s := systemInfo{
		TimerHz:  ticks.PerSecond(),
		Accuracy: timerAccuracy(),
		Product:  unknown,
	}
	s.Vendor, s.Model = cpu(root)
	if text, err := os.ReadFile(filepath.Join(root, "sys/devices/virtual/dmi/id/product_name")); err == nil {
		s.Product = strings.TrimSpace(string(text))
	}
	return s
}

// timerAccuracy compares the timer with the system's clock over a tenth of a
// second, as C does.
func timerAccuracy() float64 {
	before, start := ticks.Now(), time.Now()
	time.Sleep(100 * time.Millisecond)
	after, clock := ticks.Now(), time.Since(start).Seconds()
	timer := ticks.Seconds(after - before)
	return math.Min(timer, clock) / math.Max(timer, clock)
}

// vendors maps the kernel's names for makers of CPUs to C's.
var vendors = map[string]string{
	"GenuineIntel": "Intel",
	"AuthenticAMD": "AMD",
	"HygonGenuine": "AMD",
	"CentaurHauls": "Zhaoxin",
	"  Shanghai  ": "Zhaoxin",
	"0x41":         "Generic ARM",
	"0x46":         "Fujitsu ARM",
	"0x4e":         "Nvidia",
}

// cpu reads maker and model from the kernel's list of CPUs.
func cpu(root string) (vendor, model string) {
	vendor, model = unknown, unknown
	text, err := os.ReadFile(filepath.Join(root, "proc/cpuinfo"))
	if err != nil {
		return vendor, model
	}
	first, _, _ := strings.Cut(string(text), "\n\n")
	for _, line := range strings.Split(first, "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch strings.TrimSpace(key) {
		case "vendor_id", "CPU implementer":
			if vendor = vendors[value]; vendor == "" {
				vendor = strings.TrimSpace(value)
			}
		case "model name":
			model = strings.TrimSpace(value)
		case "CPU part":
			model = "ARM part " + strings.TrimSpace(value)
		}
	}
	return vendor, model
}

func writeSystem(w io.Writer, s systemInfo) {
	fmt.Fprintf(w, "# Timer frequency: %.3f MHz\n", s.TimerHz/1e6)
	fmt.Fprintf(w, "# Timer accuracy: %.3f %%\n", s.Accuracy*100)
	fmt.Fprintf(w, "# CPU vendor: %s\n", s.Vendor)
	fmt.Fprintf(w, "# CPU model: %s\n", s.Model)
	fmt.Fprintf(w, "# Product name: %s\n", s.Product)
}
