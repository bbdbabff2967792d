//go:build linux

package ud

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// qkey is in all packets of UCX (UCT_IB_KEY).
const qkey verbs.QKey = 0x1ee7a330

// grhLen is what a device puts in front of a packet.
const grhLen = verbs.GRHLength

// iface is an open port with one queue pair. It belongs to the goroutine of its worker.
type iface struct {
	ib.Iface
	attr uct.IfaceAttr
	set  *settings
	qp   *verbs.QP // nil when it is over
	addr [wire.IfaceAddrLen]byte

	flow    *flow.Iface
	recvs   ib.RecvPool
	slots   slots
	retired retiredItems
	sq      sendQueue
	gids    gidTable
	alarm   alarm
	lookups lookupLimit

	refused refusals // that were told of

	endpoints int // open ones
	resumed   kit.Ring[*conn]
	lateBytes int         // that wait on connections, and
	mostLate  int         // may
	inbound   packet      // the packet that is looked at
	quiet     uint8       // 1: the queue of receives was not seen empty
	starved   bool        // control packets wait for room in the queue: nothing else goes
	dead      error       // why nothing can be sent or received any more
	dying     bool        // endpoints do not know of it yet
	broken    bool        // the queue pair is in its error state
	inside    bool        // the machine is working
	offline   bool        // in the background: nobody may be called
	back      *background // nil: nobody does anything in the background
	closed    bool
}

var (
	_ uct.Iface = (*iface)(nil)
	_ uct.Armer = (*iface)(nil)
	_ ib.User   = (*iface)(nil)
)

// segment is the largest packet, with its header.
func (i *iface) segment() int { return min(i.MTU().Bytes(), i.set.UD.Buffers.SegSize.Int(0)) }

// enter and leave are around what others than the user call.
func (i *iface) enter() {
	if i.back != nil {
		i.back.enter()
	}
}

func (i *iface) leave() {
	if i.back != nil {
		i.back.leave()
	}
}

// now is the time.
func (i *iface) now() time.Duration {
	if i.offline {
		return i.back.now
	}
	return i.Worker.Now()
}

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// Address implements uct.Iface.
func (i *iface) Address() []byte { return i.addr[:] }

// Reachable implements uct.Iface.
func (i *iface) Reachable(p uct.ReachableParams) error {
	if _, err := wire.ParseIfaceAddr(p.IfaceAddr); err != nil {
		return fmt.Errorf("ud: interface address %x: %w: %w", p.IfaceAddr[:min(len(p.IfaceAddr), 16)], err, ucs.ErrUnreachable)
	}
	a, err := ib.ParseAddress(p.DeviceAddr)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ucs.ErrUnreachable)
	}
	return i.Reaches(&a)
}
