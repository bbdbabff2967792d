//go:build linux

package provider

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Errors of posting requests, and of using closed queues. They are allocated in advance, because
// posting must not allocate.
var (
	ErrQueueFull  = fmt.Errorf("verbs: the queue is full: %w", ucs.ErrNoResource)
	ErrTooManySGE = fmt.Errorf("verbs: more pieces than the queue takes: %w", ucs.ErrInvalidParam)
	ErrTooLong    = fmt.Errorf("verbs: more than 2 GiB: %w", ucs.ErrInvalidParam)
	ErrNoCQ       = fmt.Errorf("verbs: the completion queue is closed, or failed to resize: %w", ucs.ErrInvalidParam)
	ErrNoRQ       = fmt.Errorf("verbs: the receive queue is closed, or the queue pair has none of its own: %w", ucs.ErrInvalidParam)
)
