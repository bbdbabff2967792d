package ticks

import "github.com/ucx-go/ucx/internal/cpu"

// Now returns the time in ticks of the CPU's virtual counter, which runs at one
// rate on all CPUs.
func Now() uint64 { return cpu.Counter() }

func frequency() float64 { return float64(cpu.CounterRate()) }

// TrustCounter does nothing: the counter runs evenly.
func TrustCounter() {}
