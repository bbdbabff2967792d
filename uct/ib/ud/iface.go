//go:build linux

package ud

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// qkey is the Q_Key of all packets of UCX (UCT_IB_KEY).
const qkey verbs.QKey = 0x1ee7a330

// grhLen is the length of the network header that a device puts in front of a received packet.
const grhLen = verbs.GRHLength

// iface is an open port with one queue pair. It belongs to the goroutine of its worker.
type iface struct {
	ib.Iface
	attr uct.IfaceAttr
	set  *settings
	qp   *verbs.QP // nil once destroyed
	addr [wire.IfaceAddrLen]byte

	flow    *flow.Iface
	recvs   memory.RecvPool
	slots   slots
	retired retiredItems
	sq      sendQueue
	gids    gidTable
	alarm   alarm
	lookups lookupLimit

	refused refusals // counts of drops that were logged

	endpoints int             // open endpoints
	resumed   kit.Ring[*conn] // connections for deliverLate
	lateBytes int             // bytes of late messages
	mostLate  int             // bound of lateBytes, see maxLateBytes
	inbound   packet          // the packet that is being handled
	quiet     uint8           // 1: the receive queue was not found empty since packets were received
	starved   bool            // control packets wait for room in the queue, so no message is sent
	dead      error           // why nothing can be sent or received any more
	dying     bool            // dead is set, but the endpoints have not failed yet
	broken    bool            // the queue pair is in its error state
	inside    bool            // the state machine is running, so that Dispatch must not be called
	offline   bool            // the background is running: callbacks may not be called
	back      *background     // nil without UCX_UD_ASYNC
	closed    bool
}

var (
	_ uct.Iface        = (*iface)(nil)
	_ uct.NetworkIface = (*iface)(nil)
	_ uct.Progressor   = (*iface)(nil)
	_ ib.User          = (*iface)(nil)
)

// segment returns the size of the largest packet, including its header.
func (i *iface) segment() int { return min(i.MTU().Bytes(), i.set.UD.Buffers.SegSize.Int(0)) }

// enter and leave take and release the lock of the background, if there is one. They bracket the
// methods that are not called through the wrapper types of guarded.go.
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

// now returns the time of the current round: on the clock of the worker, or of the background.
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
	return i.ReachesDevice(p.DeviceAddr)
}
