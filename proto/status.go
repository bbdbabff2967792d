package proto

import "github.com/ucx-go/ucx/ucs"

// lowestStatus is the last code reserved by ucs_status_t (UCS_ERR_LAST in
// src/ucs/type/status.h).
const lowestStatus ucs.Status = -100

// StatusFromWire reads the status byte of an acknowledgement. A peer that sends
// what is no result of an operation, a positive code or one below the reserved
// range, gets ErrIO: its operation did not end well.
func StatusFromWire(b byte) ucs.Status {
	s := ucs.Status(int8(b))
	if s > ucs.OK || s < lowestStatus {
		return ucs.ErrIO
	}
	return s
}

// StatusToWire is the byte that carries s.
func StatusToWire(s ucs.Status) byte { return byte(s) }
