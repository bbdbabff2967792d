//go:build linux

package cm

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// number is the number of a queue pair that nothing is sent by: a handshake names one on
// each side, which the other may not have met just before. The smallest that a device
// makes has it, as in C (uct_rdmacm_cm_create_dummy_qp).
type number struct {
	device *device
	qp     *verbs.QP
}

// number makes one.
func (dev *device) number() (*number, error) {
	d := dev.all
	d.mu.Lock()
	defer d.mu.Unlock()
	if dev.gone || d.users == 0 {
		return nil, fmt.Errorf("rdmacm: %s is gone: %w", dev.info.Name, ucs.ErrNoDevice)
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

// close gives the number back. That of nil is none.
func (n *number) close() {
	if n == nil {
		return
	}
	d := n.device.all
	d.mu.Lock()
	defer d.mu.Unlock()
	n.qp.Close() // a device that is gone has taken it along
	if n.device.numbers--; n.device.numbers == 0 && n.device.gone {
		n.device.ctx.Close() // as well
	}
}
