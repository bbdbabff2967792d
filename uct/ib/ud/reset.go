//go:build linux

package ud

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Reset of the queue pair. A request that cannot be sent puts the queue pair in its error state:
// soft-RoCE does so when there is no route to a peer, as while a link is down. For datagrams such an
// error is not final. The queue pair is set up again, with the number that peers know. Packets that
// were in its queues count as lost on the network.

// resetQP sets the queue pair up again. If that fails, the interface fails.
func (i *iface) resetQP() {
	i.broken = false
	if i.dead != nil {
		return
	}
	if err := i.restart(); err != nil && !i.closed {
		i.die(fmt.Errorf("ud: resetting the queue pair of %s: %w", i.Port.Name(), err))
	}
	i.retired.release(i)
}

func (i *iface) restart() error {
	if i.empty(); i.closed { // by a handler
		return nil
	}
	if err := i.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
		return err
	}
	if i.empty(); i.closed { // completions that came before the reset
		return nil
	}
	i.sq.drop()
	i.recvs.Reset()
	return errors.Join(i.Init(i.qp, 0, qkey), i.qp.Connect(&verbs.QPAttr{}), i.recvs.Post())
}

// empty handles all completions in the queues. Received messages are delivered.
func (i *iface) empty() {
	for {
		sent := i.pollSends()
		wc, _ := i.Received()
		for k := range wc {
			if i.received(&wc[k]); i.closed {
				return
			}
		}
		if sent+len(wc) == 0 {
			i.broken = false
			return
		}
	}
}
