package ticks

// Now returns the time in ticks of the CPU's virtual counter, which runs at one
// rate on all CPUs.
func Now() uint64

// counterFrequency reads the rate of the counter, in Hz.
func counterFrequency() uint64

func frequency() float64 { return float64(counterFrequency()) }

// TrustCounter does nothing: the counter runs evenly.
func TrustCounter() {}
