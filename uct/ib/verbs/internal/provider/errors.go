//go:build linux

package provider

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// What is wrong with a request, of queues of every kind. They are made once: posting
// does not allocate.
var (
	ErrQueueFull = fmt.Errorf("verbs: the queue is full: %w", ucs.ErrNoResource)
	ErrManySGE   = fmt.Errorf("verbs: more pieces than the queue takes: %w", ucs.ErrInvalidParam)
	ErrTooLong   = fmt.Errorf("verbs: more than 2 GiB: %w", ucs.ErrInvalidParam)
	ErrNoCQ      = fmt.Errorf("verbs: no completion queue: it is closed, or has lost its memory: %w", ucs.ErrInvalidParam)
	ErrNoRQ      = fmt.Errorf("verbs: no receive queue: it is shared, or closed: %w", ucs.ErrInvalidParam)
)
