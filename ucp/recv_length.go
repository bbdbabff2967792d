package ucp

import "github.com/ucx-go/ucx/ucs"

// RecvLength returns how many bytes a receive has got, and Err. Of a stream receive that
// has ended with an error it is what is in the buffer nevertheless; of other receives the
// number means nothing then.
func (r *Request) RecvLength() (int, error) {
	switch {
	case r == nil:
		return 0, errNoRequest
	case !r.Done():
		return 0, ucs.InProgress
	}
	return r.info.Length, r.err
}
