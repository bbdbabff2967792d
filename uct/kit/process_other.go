//go:build !linux

package kit

import (
	"os"

	"github.com/ucx-go/ucx/uct"
)

// ThisProcess returns this process. On this system the result is the process id, because no
// transport reaches other processes of this machine.
func ThisProcess() (uct.Process, error) { return uct.Process(os.Getpid()), nil }
