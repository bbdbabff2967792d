package proto

import "github.com/ucx-go/ucx/ucs"

// lowestStatus is the last code reserved by ucs_status_t (UCS_ERR_LAST in
// src/ucs/type/status.h).
const lowestStatus ucs.Status = -100

// StatusFromWire reads the status byte of an acknowledgement. A byte that is no result of
// an operation (a positive code or one below the reserved range) gives ErrIO.
func StatusFromWire(b byte) ucs.Status {
	s := ucs.Status(int8(b))
	if s > ucs.OK || s < lowestStatus {
		return ucs.ErrIO
	}
	return s
}

// StatusToWire returns the byte that represents s.
func StatusToWire(s ucs.Status) byte { return byte(s) }
