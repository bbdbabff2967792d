package ucp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/uct"
)

// checkReach refuses a worker that no peer could connect to, for the reason why the first of its
// resources could not be opened. Lanes that are connected pairwise, those of rc_verbs, are agreed on
// over a transport that needs no connection, which may serve nothing else; at the limit of locked
// memory either may open without the other. Where nothing failed, the settings ask for that, and the
// worker may still be reached by socket address.
func (w *Worker) checkReach(first error) error {
	pairwise, auxiliary := "", ""
	for _, i := range w.ifaces {
		switch {
		case i.attr.Resource.Type == uct.DeviceSelf || i.attr.Flags&uct.IfaceAMBcopy == 0:
		case w.ctx.resources[i.index].auxiliary:
			auxiliary = i.attr.Resource.Transport
		case i.attr.Flags&uct.IfaceConnectToIface != 0:
			return nil
		default:
			pairwise = i.attr.Resource.Transport
		}
	}
	has := pairwise + auxiliary // of one kind, or there are both
	lacks := slices.ContainsFunc(w.unopened, func(s skippedResource) bool { return !strings.HasPrefix(s.name, has+"/") })
	if has == "" || pairwise != "" && auxiliary != "" || !lacks {
		return nil
	}
	return fmt.Errorf("ucp: no peer could connect to the worker: %s opened, but the transports that it needs or serves did not: %w", has, first)
}
