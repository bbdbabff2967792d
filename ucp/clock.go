package ucp

import "time"

// started is when the program did, about.
var started = time.Now()

// monotonic is the time since then.
func monotonic() time.Duration { return time.Since(started) }
