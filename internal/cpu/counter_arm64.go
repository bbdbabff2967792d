package cpu

// CounterRate returns the counter's frequency in counts per second, which only arm64 has a register
// for.
func CounterRate() uint64

// Moment is the number of counts in some ten microseconds.
func Moment() uint64 { return max(CounterRate()/100_000, 1) }
