package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// checkReach refuses a worker that no peer could connect to, for the reason why the first of its
// resources could not be opened. Lanes that are connected pairwise, those of rc_verbs, are agreed on
// over a transport that needs no connection; at the limit of locked memory rc_verbs may open and
// ud_verbs not. Where nothing failed, the settings ask for no such transport, and the worker may
// still be reached by socket address.
func (w *Worker) checkReach(first error) error {
	pairwise := ""
	for _, i := range w.ifaces {
		switch {
		case i.attr.Resource.Type == uct.DeviceSelf:
		case i.attr.Flags&uct.IfaceConnectToIface != 0 && i.attr.Flags&uct.IfaceAMBcopy != 0:
			return nil
		case i.attr.Flags&uct.IfaceConnectToEP != 0:
			pairwise = i.attr.Resource.Transport
		}
	}
	lacks := slices.ContainsFunc(w.unopened, func(s skippedResource) bool { return s.transport != pairwise })
	if pairwise == "" || !lacks {
		return nil
	}
	return fmt.Errorf("ucp: no peer could connect to the worker: what connects endpoints of %s could not be opened: %w", pairwise, first)
}
