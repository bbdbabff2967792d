package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
)

// ValueError says that a setting has a value that cannot be used. It matches
// ucs.ErrInvalidParam.
type ValueError struct {
	Name    string // name of the setting without UCX_
	Value   string
	Origin  Origin
	Allowed string // the syntax of accepted values, as Set.Write prints it
	Err     error  // the cause
}

// Error implements error.
func (e *ValueError) Error() string {
	from := e.Origin
	if from.Variable == defaultPrefix+e.Name {
		from.Variable = "" // the name is in the message already
	}
	msg := fmt.Sprintf("config: %s%s=%s from %v: %v", defaultPrefix, e.Name, quote(e.Value), from, e.Err)
	if e.Allowed != "" {
		msg += "; expected " + e.Allowed
	}
	return msg
}

// Unwrap makes the error match ucs.ErrInvalidParam and its cause.
func (e *ValueError) Unwrap() []error { return []error{ucs.ErrInvalidParam, e.Err} }

// quote quotes a value for a message, cut to a readable length.
func quote(s string) string {
	const most = 128
	if len(s) > most {
		return fmt.Sprintf("%.*q...", most, s)
	}
	return fmt.Sprintf("%q", s)
}

// Causes of a ValueError.
var (
	errSyntax = errors.New("invalid syntax")
	errRange  = errors.New("out of range")
)

// numError maps an error of strconv to errSyntax or errRange.
func numError(err error) error {
	if errors.Is(err, strconv.ErrRange) {
		return errRange
	}
	return errSyntax
}
