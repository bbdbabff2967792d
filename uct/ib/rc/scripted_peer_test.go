//go:build linux

package rc_test

import (
	"encoding/binary"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// scriptedPeer is a queue pair connected with an endpoint, which does only what the test wants.
type scriptedPeer struct {
	rigtest.End
	ep uct.Endpoint
}

// newScriptedPeer makes a peer on the first device of a rig, connected with a new endpoint of the
// host.
func newScriptedPeer(t testing.TB, r *rig, h *ucttest.Host) *scriptedPeer {
	t.Helper()
	p := &scriptedPeer{End: rigtest.End{T: t, Net: r, Host: h}}
	k := r.Devices()[0]
	p.Open(rigtest.Must(verbs.NewContext(k.Open(), k.ABI()))(t), verbs.RC, &verbs.QPAttr{Port: 1, Access: rigtest.Access})
	p.ep = h.NewEndpoint(t, uct.EndpointParams{UserData: p})
	addr := rigtest.Must(p.ep.(uct.Paired).Address())(t)
	gid := rigtest.Must(p.Ctx.DefaultGID(1))(t)
	check(t, p.QP.Connect(&verbs.QPAttr{
		AH: gid.To(gid.GID), DestQPN: verbs.QPN(binary.LittleEndian.Uint32(addr) >> 8), PathMTU: verbs.MTU4096,
		MaxRdAtomic: 16, MaxDestRdAtomic: 16, MinRNRTimer: 13, Timeout: 18, RetryCount: 6, RNRRetry: 7,
	}))
	n := p.QPN()
	check(t, p.ep.(uct.Paired).ConnectToEP(h.Iface.DeviceAddress(), nil, []byte{0, byte(n), byte(n >> 8), byte(n >> 16)}))
	return p
}

// send sends a message and returns the status of its completion.
func (p *scriptedPeer) send(msg []byte) verbs.WCStatus {
	p.T.Helper()
	if p.Host == nil {
		return p.Send(verbs.SendWR{Opcode: verbs.WRSend}, msg)
	}
	return p.Send(verbs.SendWR{Opcode: verbs.WRSend}, msg, p.Host)
}

// tell sends a message, which must succeed.
func (p *scriptedPeer) tell(msg ...byte) {
	p.T.Helper()
	if s := p.send(msg); s != verbs.WCSuccess {
		p.T.Fatalf("sending %x: %v", msg, s)
	}
}
