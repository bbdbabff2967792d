//go:build linux

package ud

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// AsyncEvent implements ib.User. That a port is down says nothing of peers: it may come
// back before they count as gone.
func (i *iface) AsyncEvent(a verbs.AsyncEvent) {
	switch a.Type {
	case verbs.EventGIDChange:
		if i.gids.read(i) != nil {
			return // it stays as it was
		}
	case verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr:
		i.broken = true
	case verbs.EventDeviceFatal, verbs.EventCQErr:
		i.die(fmt.Errorf("ud: %s: %v: %w", i.Port.Name(), a.Type, ucs.ErrIO))
	}
}
