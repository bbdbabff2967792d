package cpu

// CounterRate is how often the counter counts in a second, which only this processor tells.
func CounterRate() uint64

// Moment is how far the counter goes in some ten microseconds.
func Moment() uint64 { return max(CounterRate()/100_000, 1) }
