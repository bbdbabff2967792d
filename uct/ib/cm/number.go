//go:build linux

package cm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// number is a queue pair that is created for its number only and sends nothing. The handshake needs
// a queue pair number on each side, and the other side refuses one that an earlier connection may
// still have. The queue pair is the smallest that a device can create, as in C UCX
// (uct_rdmacm_cm_create_dummy_qp).
type number struct {
	device *device
	qp     *verbs.QP
}

// number creates a queue pair for its number.
func (dev *device) number() (*number, error) {
	d := dev.all
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.gone || d.users == 0 {
		return nil, fmt.Errorf("rdmacm: device %s was removed or is not in use any more: %w", dev.info.Name, ucs.ErrNoDevice)
	}
	qp, err := dev.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.UD, SendCQ: dev.cq, RecvCQ: dev.cq,
		Cap: verbs.QPCap{MaxSendWR: 2, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err != nil {
		return nil, err
	}
	dev.numbers++
	return &number{dev, qp}, nil
}

func (n *number) qpn() verbs.QPN { return n.qp.QPN() }

// close closes the queue pair. On nil it does nothing.
func (n *number) close() {
	if n == nil {
		return
	}
	d := n.device.all
	d.mu.Lock()
	defer d.mu.Unlock()
	n.qp.Close() // an error is ignored: a device that is gone has closed the queue pair already
	if n.device.numbers--; n.device.numbers == 0 && n.device.gone {
		n.device.ctx.Close() // an error is ignored here too
	}
}
