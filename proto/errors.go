package proto

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// FormatError describes malformed bytes. It wraps a Status: ErrIO for an active message,
// ErrInvalidAddr for an address, ErrInvalidParam for a key.
type FormatError struct {
	What   string // the format, for example "rndv rts"
	Reason string
	Status ucs.Status
}

// Error returns the format and the reason.
func (e *FormatError) Error() string { return e.What + ": " + e.Reason }

// Unwrap returns the status.
func (e *FormatError) Unwrap() error { return e.Status }

// amError makes an error of an active message. Hot parsers keep theirs in
// package variables, so that refusing a message allocates nothing.
func amError(what, reason string) error {
	return &FormatError{What: what, Reason: reason, Status: ucs.ErrIO}
}

// formatErrorf makes an error on a path that is allowed to allocate.
func formatErrorf(s ucs.Status, what, format string, args ...any) error {
	return &FormatError{What: what, Reason: fmt.Sprintf(format, args...), Status: s}
}
