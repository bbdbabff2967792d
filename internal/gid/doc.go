// Package gid identifies goroutines, to tell whether the calling goroutine is the one seen before.
// C programs compare thread ids for that, as in recursive locks.
//
// Go exposes no identity of a goroutine, on purpose: programs must not depend on it. This module
// uses it only to find out whether a call comes from a function further down the same stack, which
// is reliable as long as that function has not returned.
package gid

// ID identifies a goroutine. It is unique among the running goroutines, and may be reused after the
// goroutine has ended. It is never 0.
type ID uintptr
