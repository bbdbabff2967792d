//go:build linux

package ud

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// AsyncEvent implements ib.User. A port that goes down fails no endpoint: the port may come back
// before peers are declared dead.
func (i *iface) AsyncEvent(a verbs.AsyncEvent) {
	i.enter()
	defer i.leave()
	switch a.Type {
	case verbs.EventGIDChange:
		if i.gids.read(i) != nil {
			return // the table is unchanged
		}
	case verbs.EventQPFatal, verbs.EventQPReqErr, verbs.EventQPAccessErr:
		i.broken = true
	case verbs.EventDeviceFatal, verbs.EventCQErr:
		i.die(fmt.Errorf("ud: %s: %v: %w", i.Port.Name(), a.Type, ucs.ErrIO))
	}
}
