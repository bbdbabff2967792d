package ucp

import "github.com/ucx-go/ucx/ucs"

// RecvLength returns the number of bytes that a receive got, and Err. For a stream receive
// that ended with an error it is the number of bytes in the buffer; for other receives with
// an error the number means nothing.
func (r *Request) RecvLength() (int, error) {
	switch {
	case r == nil:
		return 0, errNoRequest
	case !r.Done():
		return 0, ucs.InProgress
	}
	return r.info.Length, r.err
}
