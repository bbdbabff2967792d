//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Errors that the calls of this package return. They are allocated in advance, because posting must
// not allocate. Package provider has further errors, for example that of a full queue.
var (
	errInlineLong = fmt.Errorf("verbs: more inline data than the queue takes: %w", ucs.ErrExceedsLimit)
	errInlineWhat = fmt.Errorf("verbs: the operation does not take inline data: %w", ucs.ErrInvalidParam)
	errMixed      = fmt.Errorf("verbs: inline data and pieces of memory in one request: %w", ucs.ErrInvalidParam)
	errNoData     = fmt.Errorf("verbs: the operation does not take data: %w", ucs.ErrInvalidParam)
	errNotUD      = fmt.Errorf("verbs: an address handle for a request that is not a datagram: %w", ucs.ErrInvalidParam)
	errNoRequest  = fmt.Errorf("verbs: a part of a request is added before the first request: %w", ucs.ErrInvalidParam)
	errAtomic     = fmt.Errorf("verbs: an atomic operation has 8 bytes, naturally aligned: %w", ucs.ErrInvalidParam)
	errOpcode     = fmt.Errorf("verbs: not an operation of this type of queue pair: %w", ucs.ErrUnsupported)
	errFlags      = fmt.Errorf("verbs: unknown flags: %w", ucs.ErrInvalidParam)
	errNoAH       = fmt.Errorf("verbs: a datagram needs an address of the queue pair's domain: %w", ucs.ErrInvalidParam)
	errNoMW       = fmt.Errorf("verbs: a bind needs a window and a region of the queue pair's domain, and a range of the region: %w", ucs.ErrInvalidParam)
	errState      = fmt.Errorf("verbs: the state of the queue pair does not allow it: %w", ucs.ErrInvalidParam)
	errClosed     = fmt.Errorf("verbs: closed already: %w", ucs.ErrInvalidParam)
)
