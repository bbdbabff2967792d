//go:build linux

package rigtest

import (
	"bytes"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Number of receives that a scripted peer posts, and the size of each in bytes.
const (
	Recvs    = 1100
	RecvSize = 256
)

// sendRoom is the number of bytes that a scripted peer can send at once.
const sendRoom = 16384

// End is a scripted peer: a queue pair on a device, with memory that it receives into, that it
// sends from, and that its peers may access.
type End struct {
	T    testing.TB
	Net  *Rig          // the network of the device; nil: a device of the kernel
	Host *ucttest.Host // progresses meanwhile; nil: nothing receives meanwhile
	Ctx  *verbs.Context
	PD   *verbs.PD
	Wake *verbs.CompChannel // completion channel of Got
	Sent *verbs.CQ
	Got  *verbs.CQ
	QP   *verbs.QP
	Mem  []byte
	MR   *verbs.MR

	head int // bytes that the device puts in front of a message
}

// Access is the access that peers have to the memory of a scripted peer.
const Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// Open makes the queue pair on an open device, which is closed when the test ends. attr is for
// verbs.QP.Init.
func (p *End) Open(ctx *verbs.Context, typ verbs.QPType, attr *verbs.QPAttr) {
	t := p.T
	t.Helper()
	t.Cleanup(func() { ctx.Close() })
	if typ == verbs.UD {
		p.head = verbs.GRHLength
	}
	p.Ctx, p.Mem = ctx, make([]byte, Recvs*RecvSize+sendRoom)
	p.PD = Must(ctx.AllocPD())(t)
	p.Sent = Must(ctx.CreateCQ(16, nil, 0))(t)
	p.Wake = Must(ctx.CreateCompChannel())(t)
	p.Got = Must(ctx.CreateCQ(Recvs, p.Wake, 0))(t)
	p.MR = Must(p.PD.RegMR(p.Mem, Access))(t)
	p.QP = Must(p.PD.CreateQP(&verbs.QPInitAttr{Type: typ, SendCQ: p.Sent, RecvCQ: p.Got,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: Recvs, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: 64}}))(t)
	Check(t, p.QP.Init(attr))
	for k := range Recvs {
		p.post(k)
	}
}

// QPN is the number of the queue pair.
func (p *End) QPN() uint32 { return uint32(p.QP.QPN()) }

// post posts a receive.
func (p *End) post(k int) {
	p.T.Helper()
	_, err := p.QP.PostRecv([]verbs.RecvWR{{ID: uint64(k), SGList: []verbs.SGE{p.MR.SGE(k*RecvSize, RecvSize)}}})
	Check(p.T, err)
}

// Outgoing copies a message into the memory to send from, and returns the entry that describes it.
func (p *End) Outgoing(msg []byte) verbs.SGE {
	copy(p.Mem[Recvs*RecvSize:], msg)
	return p.MR.SGE(Recvs*RecvSize, len(msg))
}

// Send posts a request that sends a message and waits until the request completes, while the hosts
// progress. It returns the status of the completion.
func (p *End) Send(wr verbs.SendWR, msg []byte, hosts ...*ucttest.Host) verbs.WCStatus {
	p.T.Helper()
	wr.Flags |= verbs.SendSignaled
	if len(msg) > 0 {
		wr.SGList = []verbs.SGE{p.Outgoing(msg)}
	}
	_, err := p.QP.PostSend([]verbs.SendWR{wr})
	Check(p.T, err)
	return p.Done(hosts...)
}

// Done waits for the completion of a send, while the hosts progress.
func (p *End) Done(hosts ...*ucttest.Host) verbs.WCStatus {
	p.T.Helper()
	var wc [1]verbs.WC
	if len(hosts) == 0 && p.Net != nil {
		p.Net.Progress()
	}
	ucttest.Until(p.T, "the completion of a send", func() bool { return p.Sent.Poll(wc[:]) == 1 }, hosts...)
	return wc[0].Status
}

// Received returns the messages that have been received since the last call, in their order, up to
// RecvSize bytes of each. It ends the test if a receive has failed.
func (p *End) Received() (list [][]byte) {
	p.T.Helper()
	var wc [16]verbs.WC
	for {
		n := p.Got.Poll(wc[:])
		for _, c := range wc[:n] {
			if c.Status == verbs.WCWRFlushErr {
				continue
			}
			if c.Status != verbs.WCSuccess {
				p.T.Fatalf("receiving: %v", c.Status)
			}
			k := int(c.ID)
			list = append(list, bytes.Clone(p.Mem[k*RecvSize:][p.head:min(int(c.ByteLen), RecvSize)]))
			p.post(k)
		}
		if n == 0 {
			return list
		}
	}
}
