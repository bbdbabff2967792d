//go:build linux

package flow

import "errors"

// Errors of endpoints and of Open and OpenPair.
var (
	ErrTimeout = errors.New("the peer does not answer")
	ErrReset   = errors.New("the peer has ended the connection")
	ErrClosed  = errors.New("the connection is closed")

	ErrFull  = errors.New("the interface has the largest possible number of endpoints")
	ErrState = errors.New("the endpoint cannot be connected twice")
)
