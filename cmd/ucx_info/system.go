package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/internal/topo"
)

// systemInfo is the output of -s.
type systemInfo struct {
	TimerHz  float64 `json:"timer_hz"`
	Accuracy float64 `json:"timer_accuracy"` // ratio of timer and system clock; 1 is exact
	Vendor   string  `json:"cpu_vendor"`
	Model    string  `json:"cpu_model"`
	Product  string  `json:"product"`
}

// system describes the machine whose file tree is at root.
func system(root string) systemInfo {
	s := systemInfo{
		TimerHz:  ticks.PerSecond(),
		Accuracy: timerAccuracy(),
		Product:  topo.Product(root),
	}
	s.Vendor, s.Model = topo.CPU(root)
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

func writeSystem(w io.Writer, s systemInfo) {
	fmt.Fprintf(w, "# Timer frequency: %.3f MHz\n", s.TimerHz/1e6)
	fmt.Fprintf(w, "# Timer accuracy: %.3f %%\n", s.Accuracy*100)
	fmt.Fprintf(w, "# CPU vendor: %s\n", s.Vendor)
	fmt.Fprintf(w, "# CPU model: %s\n", s.Model)
	fmt.Fprintf(w, "# Product name: %s\n", s.Product)
}
