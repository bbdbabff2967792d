//go:build linux

package rdmacm_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Arguments of the C examples: number of connections, messages for each.
const (
	toolConns    = 3
	toolMessages = 5
	toolSize     = 100
	toolPort     = 7471 // cmatose.c
	toolPortUD   = 7174 // udaddy.c
)

// tool starts a C example, and checks at the end that it succeeded.
func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		needtest.Tool(t, fmt.Sprintf("%v (apt-get install rdmacm-utils)", err))
	}
	args = append(args, "-c", fmt.Sprint(toolConns), "-C", fmt.Sprint(toolMessages), "-S", fmt.Sprint(toolSize))
	cmd := exec.CommandContext(timeout(t), name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			cmd.Process.Kill()
		}
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s %v: %v\n%s", name, args, err, &out)
		}
	})
}

// receive and reply do what the C examples do, in either order.
func (e *end) receive(t *testing.T) (last verbs.WC) {
	t.Helper()
	for range toolMessages {
		last = e.done(t, verbs.WCRecv)
		if n := int(last.ByteLen); n != toolSize && n != toolSize+verbs.GRHLength {
			t.Fatalf("%d bytes", n)
		}
	}
	return last
}

func (e *end) reply(t *testing.T, w verbs.SendWR) {
	t.Helper()
	for range toolMessages {
		e.send(t, string(make([]byte, toolSize)), w)
		e.done(t, verbs.WCSend)
	}
}

// newToolEnd creates an end with receives for all messages.
func (r *rig) newToolEnd(t *testing.T, a rdmacm.Addr, typ verbs.QPType, id *rdmacm.ID) *end {
	t.Helper()
	e := r.newEnd(t, a, typ)
	check(t, id.InitQP(e.qp))
	for range toolMessages {
		e.recv(t)
	}
	return e
}

// TestServeCmatose runs a server with C's ucmatose as the client, with several connections.
func TestServeCmatose(t *testing.T) {
	r := deviceRig(t)
	l := must(rdmacm.Listen(netip.AddrPortFrom(r.server, toolPort), r.config()))(t)
	defer l.Close()
	tool(t, "ucmatose", "-s", r.server.String(), "-b", r.client.String())
	type conn struct {
		*rdmacm.Conn
		e *end
	}
	var conns []conn
	for range toolConns {
		c := must(l.GetRequest(timeout(t)))(t)
		e := r.newToolEnd(t, c.Addr(), verbs.RC, c.ID())
		check(t, c.Accept(timeout(t), e.qp, nil))
		conns = append(conns, conn{c, e})
	}
	// The C program receives from all connections before it answers any.
	for _, c := range conns {
		c.e.reply(t, verbs.SendWR{})
	}
	for _, c := range conns {
		c.e.receive(t)
	}
	for _, c := range conns {
		check(t, c.Disconnect(timeout(t)))
		check(t, c.Close())
		c.e.close(t)
	}
}

// TestClientOfCmatose runs a client with C's ucmatose as the server.
func TestClientOfCmatose(t *testing.T) {
	r := deviceRig(t)
	tool(t, "ucmatose", "-b", r.server.String())
	to := netip.AddrPortFrom(r.server, toolPort)
	var conns []*rdmacm.Conn
	var ends []*end
	for deadline := time.Now().Add(eventTimeout); len(conns) < toolConns; {
		c := must(rdmacm.Resolve(timeout(t), to, r.config()))(t)
		e := r.newToolEnd(t, c.Addr(), verbs.RC, c.ID())
		err := c.Connect(timeout(t), e.qp, nil)
		if errors.Is(err, ucs.ErrRejected) && time.Now().Before(deadline) { // not listening yet
			check(t, c.Close())
			e.close(t)
			continue
		}
		check(t, err)
		conns, ends = append(conns, c), append(ends, e)
	}
	for _, e := range ends {
		e.receive(t)
		for range toolMessages {
			e.send(t, string(make([]byte, toolSize)), verbs.SendWR{})
		}
	}
	// The C program ends the connections as soon as it has received everything. Soft-RoCE may
	// then not acknowledge the last message, which completes when the connection ends on this
	// side, too.
	for i, c := range conns {
		check(t, c.Wait(timeout(t)))
		check(t, c.Disconnect(timeout(t)))
		ends[i].drain(t, toolMessages)
		check(t, c.Close())
		ends[i].close(t)
	}
}

// TestServeUdaddy runs a server with C's udaddy, which uses datagrams, as the client. The client
// sends its queue pair number as immediate data.
func TestServeUdaddy(t *testing.T) {
	r := deviceRig(t)
	ch := must(r.channel())(t)
	defer ch.Close()
	listener := must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
	check(t, listener.BindAddr(netip.AddrPortFrom(r.server, toolPortUD)))
	check(t, listener.Listen(0))
	tool(t, "udaddy", "-s", r.server.String(), "-b", r.client.String())
	var ids []*rdmacm.ID
	var ends []*end
	for range toolConns {
		id := next(t, ch, rdmacm.EventConnectRequest).ID
		e := r.newToolEnd(t, must(id.QueryAddr())(t), verbs.UD, id)
		check(t, id.Accept(&rdmacm.ConnParam{QPN: e.qp.QPN()}))
		ids, ends = append(ids, id), append(ends, e)
	}
	for i, e := range ends {
		last := e.receive(t)
		a := must(ids[i].QueryAddr())(t)
		attr, _, err := ids[i].InitQPAttr(verbs.QPInit)
		check(t, err)
		dev := must(r.open(a))(t)
		gid := must(dev.DefaultGID(a.Port))(t)
		path := gid.To(verbs.GIDFromAddr(r.client))
		ah := must(e.pd.CreateAH(&path))(t)
		e.reply(t, verbs.SendWR{AH: ah, RemoteQPN: verbs.QPN(last.Imm), RemoteQKey: attr.QKey})
		check(t, ah.Close())
		if last.SrcQPN != verbs.QPN(last.Imm) {
			t.Errorf("from %#x, which says it is %#x", last.SrcQPN, last.Imm)
		}
	}
	for i, id := range ids {
		check(t, id.Close())
		ends[i].close(t)
	}
}

// TestClientOfUdaddy runs a client with C's udaddy as the server.
func TestClientOfUdaddy(t *testing.T) {
	r := deviceRig(t)
	tool(t, "udaddy", "-b", r.server.String())
	ch := must(r.channel())(t)
	defer ch.Close()
	to := netip.AddrPortFrom(r.server, toolPortUD)
	var ids []*rdmacm.ID
	var ends []*end
	var peers []rdmacm.UDParam
	for deadline := time.Now().Add(eventTimeout); len(ids) < toolConns; {
		id := must(ch.CreateID(rdmacm.PortSpaceUDP, 0))(t)
		check(t, id.ResolveAddr(netip.AddrPortFrom(r.client, 0), to, eventTimeout))
		next(t, ch, rdmacm.EventAddrResolved)
		check(t, id.ResolveRoute(eventTimeout))
		next(t, ch, rdmacm.EventRouteResolved)
		e := r.newToolEnd(t, must(id.QueryAddr())(t), verbs.UD, id)
		check(t, id.Connect(&rdmacm.ConnParam{QPN: e.qp.QPN()}))
		event := must(ch.GetEvent(timeout(t)))(t)
		if errors.Is(event.Err(), ucs.ErrRejected) && time.Now().Before(deadline) { // not listening yet
			check(t, id.Close())
			e.close(t)
			continue
		}
		check(t, event.Err())
		ids, ends, peers = append(ids, id), append(ends, e), append(peers, event.UD)
	}
	var ahs []*verbs.AH
	for i, e := range ends {
		ah := must(e.pd.CreateAH(&peers[i].AH))(t)
		ahs = append(ahs, ah)
		for range toolMessages {
			copy(e.buf[2048:], make([]byte, toolSize))
			_, err := e.qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.WRSendWithImm, Flags: verbs.SendSignaled, Imm: uint32(e.qp.QPN()),
				SGList: []verbs.SGE{e.mr.SGE(2048, toolSize)}, AH: ah, RemoteQPN: peers[i].QPN, RemoteQKey: peers[i].QKey}})
			check(t, err)
			e.done(t, verbs.WCSend)
		}
	}
	for i, e := range ends {
		e.receive(t)
		check(t, ahs[i].Close())
		check(t, ids[i].Close())
		e.close(t)
	}
}
