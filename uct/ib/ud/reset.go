//go:build linux

package ud

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// A request that cannot be sent breaks the queue pair: soft-RoCE does so when there is no
// route to a peer, as while a link is down. Nothing of it is final for datagrams. The
// queue pair is set up anew, with the number that peers know, and what was in its queues
// counts as lost on the way.

// resetQP sets the queue pair up anew.
func (i *iface) resetQP() {
	i.broken = false
	if i.dead != nil {
		return
	}
	if err := i.restart(); err != nil && !i.closed {
		i.die(fmt.Errorf("ud: setting up the queue pair of %s anew: %w", i.Port.Name(), err))
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
	if i.empty(); i.closed { // of what it did in the meantime
		return nil
	}
	i.sq.drop()
	i.recvs.Reset()
	return errors.Join(i.Init(i.qp, 0, qkey), i.qp.Connect(&verbs.QPAttr{}), i.recvs.Post())
}

// empty takes all completions there are. Messages among them are delivered.
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
