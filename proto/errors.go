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

// amError makes an error of an active message. Parsers on fast paths keep their errors in
// package variables, so that rejecting a message does not allocate.
func amError(what, reason string) error {
	return &FormatError{What: what, Reason: reason, Status: ucs.ErrIO}
}

// formatErrorf makes an error on a path that is allowed to allocate.
func formatErrorf(s ucs.Status, what, format string, args ...any) error {
	return &FormatError{What: what, Reason: fmt.Sprintf(format, args...), Status: s}
}

// lowestStatus is the last code reserved by ucs_status_t (UCS_ERR_LAST in
// src/ucs/type/status.h).
const lowestStatus ucs.Status = -100

// StatusFromWire reads the status byte of an acknowledgement. A byte that cannot be the result
// of an operation (a positive code or one below the reserved range) gives ErrIO.
func StatusFromWire(b byte) ucs.Status {
	s := ucs.Status(int8(b))
	if s > ucs.OK || s < lowestStatus {
		return ucs.ErrIO
	}
	return s
}

// StatusToWire returns the byte that represents s.
func StatusToWire(s ucs.Status) byte { return byte(s) }
