//go:build linux

package ud

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Logging of dropped packets. Any host on the network can send packets to the port. Dropped packets
// are counted, and logged once a minute.

// refusals counts the dropped packets by reason.
type refusals struct {
	room, malformed, source uint64
	stray                   uint64 // may be late packets of honest peers
}

// warnRefused logs the packets that were dropped since its last call. The last of them may be the
// packet in iface.inbound.
func (i *iface) warnRefused() {
	c := &i.flow.Counters
	now := refusals{
		room:      c.Refused,
		malformed: c.Malformed + c.Short + c.WrongAck + c.WrongNumber + c.WrongControl + c.Puts,
		source:    c.WrongSource,
		stray:     c.Unknown + c.Elsewhere,
	}
	if now != i.refused {
		i.logDropped(now)
	}
}

//go:noinline
func (i *iface) logDropped(now refusals) {
	was := i.refused
	i.refused = now
	logIncrease := func(write func(string, ...zap.Field), why ledger.Reason, was, now uint64, what string) {
		for ; was != now; was++ {
			if (*ledger.Account)(nil).Refuse(why) {
				write("ud: dropped "+what, zap.String("port", i.Port.Name()),
					zap.Stringer("last source", verbs.GID(i.inbound.from.GID)), zap.Uint64("so far", now))
			}
		}
	}
	logIncrease(i.Worker.Log().Warn, ledger.Connections, was.room, now.room, "connection requests: no room, or no route back to the peer")
	logIncrease(i.Worker.Log().Warn, ledger.Malformed, was.malformed, now.malformed, "malformed packets")
	logIncrease(i.Worker.Log().Warn, ledger.Claim, was.source, now.source, "packets with a spoofed source")
	logIncrease(i.Worker.Log().Diag, ledger.Stray, was.stray, now.stray, "packets to an unknown queue pair or endpoint")
}
