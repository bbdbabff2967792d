//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

var (
	errHelp   = errors.New("help wanted")
	errNoTest = errors.New("missing test name, need -t")

	// errLeftOut says that C's tool supports the request and this tool does not.
	errLeftOut = fmt.Errorf("not supported: %w", ucs.ErrUnsupported)
)

func badValue(opt, value, want string) error {
	return fmt.Errorf("option -%s %q, need %s", opt, value, want)
}
