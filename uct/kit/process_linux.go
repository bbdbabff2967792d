package kit

import (
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// ThisProcess returns this process as the shared-memory transports identify it. ucp compares the
// result with the processes that other transports find.
func ThisProcess() (uct.Process, error) {
	own, err := host.Self()
	return own.ID(), err
}
