//go:build !linux

package self

import (
	"os"

	"github.com/ucx-go/ucx/uct"
)

// thisProcess is its number: nobody else is met here.
func thisProcess() (uct.Process, error) { return uct.Process(os.Getpid()), nil }
