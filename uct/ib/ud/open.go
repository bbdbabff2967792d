//go:build linux

package ud

import (
	"errors"
	"math"
	"os"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

func init() {
	ib.RegisterTransport(ib.Transport{Name: transportName, Check: check, Open: openIface})
}

// check accepts every device, because all devices support datagrams.
func check(*ib.Domain) error { return nil }

// openIface opens an interface on a port.
func openIface(p *ib.Port, w *uct.Worker, params uct.IfaceParams, cfg *config.Set) (_ uct.Iface, err error) {
	set, err := loadSettings(cfg)
	if err != nil {
		return nil, err
	}
	u, caps := &set.UD, p.Domain.Caps()
	sends := min(u.IB.TxQueueLen.Int(0), caps.MaxQPWR)
	receives := min(u.Buffers.RxQueueLen.Int(0), caps.MaxQPWR)
	i := &iface{set: set, mostLate: maxLateBytes}
	if err := i.Open(p, w, ib.IfaceInit{User: i, Params: params, Settings: &u.IB, SendCQE: sends, RecvCQE: receives}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.release())
		}
	}()
	if err := i.openQP(sends, receives); err != nil {
		return nil, err
	}
	if err := i.openBuffers(sends, receives); err != nil {
		return nil, err
	}
	if err := i.openFlow(); err != nil {
		return nil, err
	}
	if i.alarm.timer, err = w.Timers().After(math.MaxInt64, i.ring); err != nil {
		return nil, err
	}
	i.alarm.timer.Stop()
	if err := i.gids.read(i); err != nil {
		return nil, err
	}
	i.describe()
	if u.Async {
		return watched(i), nil
	}
	w.AddProgress(i)
	return i, nil
}

// openQP makes the queue pair, which receives packets as soon as it has buffers.
func (i *iface) openQP(sends, receives int) (err error) {
	s, caps := &i.set.UD.IB, i.Domain.Caps()
	i.qp, err = i.Domain.PD().CreateQP(&verbs.QPInitAttr{
		Type: verbs.UD, SendCQ: i.SendCQ, RecvCQ: i.RecvCQ,
		Cap: verbs.QPCap{
			MaxSendWR: sends, MaxRecvWR: receives, MaxRecvSGE: 1,
			MaxSendSGE: min(s.TxMinSGE.Int(0)+1, caps.MaxSGE, maxPieces+1),
			MaxInline:  s.TxMinInline.Int(0),
		},
	})
	if err != nil {
		return err
	}
	copy(i.addr[:], wire.AppendIfaceAddr(nil, uint32(i.qp.QPN())))
	i.sq.open(min(sends, i.qp.Cap().MaxSendWR), s.TxMaxBufs.Int(defaultSlots))
	if err := i.Init(i.qp, 0, qkey); err != nil {
		return err
	}
	return i.qp.Connect(&verbs.QPAttr{})
}

// openBuffers opens the pools of send and receive buffers.
func (i *iface) openBuffers(sends, receives int) error {
	s := &i.set.UD
	inline := i.qp.Cap().MaxInline
	if err := i.slots.open(&i.Domain.Space, inline, i.segment(), s.IB.TxMaxBufs.Int(defaultSlots)); err != nil {
		return err
	}
	if n := wire.CREQLen(len(i.DeviceAddress())); n > inline { // no control packet is longer
		if err := i.slots.openControl(&i.Domain.Space, n, sends); err != nil {
			return err
		}
	}
	return i.recvs.Open(&i.Domain.Space, i.qp, grhLen+i.segment(), receives, s.IB.RxMaxBufs)
}

// defaultSlots is the number of messages that may be in flight on all endpoints together. Buffers
// are allocated as they are needed.
const defaultSlots = 4096

// openFlow makes the state machine.
func (i *iface) openFlow() (err error) {
	u := &i.set.UD
	host, _ := os.Hostname() // only for readers of captured packets
	i.flow, err = flow.NewIface(flow.Config{
		QPN:       uint32(i.qp.QPN()),
		DevAddr:   i.DeviceAddress(),
		Origin:    wire.NewOrigin(host, os.Getpid()),
		MaxWindow: u.MaxWindow.Int(0),
		Tick:      u.Tick.Duration(0),
		Backoff:   u.Backoff,
		Timeout:   u.Timeout.Duration(0),
		Linger:    u.Linger.Duration(0),
		Poke:      u.Poke.Duration(0),
	}, port{i})
	if err == nil {
		i.flow.Clock(int64(i.Worker.Now()))
	}
	return err
}
