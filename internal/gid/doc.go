// Package gid tells goroutines apart: whether the one that calls is the one that was
// seen before. C programs ask for the thread for that, as in recursive locks.
//
// Go gives out no identity of a goroutine, for good reasons: nothing may hang on
// it. What hangs on it here is only whether a call comes from a function that is further
// down the same stack, which is certain as long as that function has not returned.
package gid

// ID is an identity of a goroutine. It is that of no other one as long as the
// goroutine lives, and may be another's later. It is never 0.
type ID uintptr
