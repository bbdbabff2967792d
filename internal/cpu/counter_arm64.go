package cpu

// counterRate is how often the counter counts in a second.
func counterRate() uint64

// Moment is how far the counter goes in some ten microseconds.
func Moment() uint64 { return max(counterRate()/100_000, 1) }
