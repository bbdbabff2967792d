//go:build linux

package ucptest

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// attacker is a peer that sends any messages: an interface of tcp without a worker.
type attacker struct {
	testing.TB
	worker *uct.Worker
	iface  uct.Iface
	ep     uct.Endpoint
	got    map[proto.AMID][]byte // the last message of each kind
}

// newAttacker returns an attacker connected to a worker.
func newAttacker(t testing.TB, to *proto.WorkerAddress) *attacker {
	t.Helper()
	a := &attacker{TB: t, got: make(map[proto.AMID][]byte)}
	cfg, err := config.Read("", "")
	if err != nil {
		t.Fatal(err)
	}
	if a.worker, err = uct.NewWorker(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.worker.Close() })
	at := slices.IndexFunc(uct.Components(), func(c uct.Component) bool { return c.Name() == "tcp" })
	md, err := uct.Components()[at].OpenMD("tcp", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { md.Close() })
	a.iface, err = md.OpenIface(a.worker, uct.IfaceParams{Transport: "tcp", Device: "lo", OnError: func(uct.Endpoint, any, error) {}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.iface.Close() })
	for _, id := range []proto.AMID{proto.IDWireup, proto.IDRndvRTR, proto.IDRndvATS} {
		err := a.iface.SetAMHandler(uct.AMID(id), func(_ *uct.Source, data []byte, _ *uct.AMDesc) error {
			a.got[id] = append([]byte{}, data...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	to.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if f.Transport == proto.TransportIDOf("tcp") {
			a.ep, err = a.iface.NewEndpoint(uct.EndpointParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		}
		return a.ep == nil && err == nil
	})
	if err != nil || a.ep == nil {
		t.Fatalf("endpoint %v, %v", a.ep, err)
	}
	t.Cleanup(a.ep.Close)
	return a
}

// packed is a message that is sent as it is.
type packed []byte

// Pack implements uct.Packer.
func (p packed) Pack(dst []byte) int { return copy(dst, p) }

// send sends a message as soon as there is room.
func (a *attacker) send(r *rig, id proto.AMID, m []byte) {
	a.Helper()
	a.until(r, "room", func() bool {
		_, err := a.ep.AMBcopy(uct.AMID(id), packed(m), 0, nil)
		if err != nil && err != ucs.InProgress && err != ucs.ErrNoResource {
			a.Fatal(err)
		}
		return err != ucs.ErrNoResource
	})
}

// until progresses the attacker and the rig until done.
func (a *attacker) until(r *rig, what string, done func() bool) {
	a.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); {
		if time.Now().After(deadline) {
			a.Fatalf("no %s", what)
		}
		a.worker.Progress()
		r.progress()
	}
}

// address returns an address of the attacker with an entry that leads to a process by cma.
func (a *attacker) address(like *proto.WorkerAddress, pid int) proto.WorkerAddress {
	addr := *like.Clone()
	addr.UUID = 0xE711
	for d := range addr.Devices {
		dev := &addr.Devices[d]
		for n := range dev.Ifaces {
			switch f := &dev.Ifaces[n]; f.Transport {
			case proto.TransportIDOf("tcp"):
				dev.Addr, f.Addr = a.iface.DeviceAddress(), a.iface.Address()
			case proto.TransportIDOf("cma"):
				binary.LittleEndian.PutUint32(f.Addr, binary.LittleEndian.Uint32(f.Addr)&(1<<31)|uint32(pid))
			}
		}
	}
	return addr
}

// TestConfusedDeputy: an attacker connects, claims to be another process of this user, and offers a
// message in that process's memory. The worker may read that memory, but must not do so for the
// attacker. It reads it for a process that the kernel ties to the connection.
func TestConfusedDeputy(t *testing.T) {
	const n = 100_000
	r := newRig(t, transport{settings: []setting{{"TLS", "tcp,cma"}, {"NET_DEVICES", "lo"}, {"RNDV_THRESH", "0"}}})
	v := r.open()
	like := r.parsed(v.address())
	cma := false
	like.Ifaces(func(_ int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
		cma = cma || f.Transport == proto.TransportIDOf("cma")
		return true
	})
	if !cma {
		t.Skip("missing: cma")
	}
	third := exec.Command("cat")
	in, err := third.StdinPipe()
	if err == nil {
		err = third.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		third.Wait()
	})
	secret := make([]byte, n)
	for k := range secret {
		secret[k] = 0x5A
	}
	for _, c := range []struct {
		name string
		pid  int
		read bool
	}{
		{"another process", third.Process.Pid, false},
		{"the process itself", os.Getpid(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAttacker(t, like)
			ask := proto.Wireup{Type: proto.WireupRequest, SrcEp: 0x4001, ConnSN: proto.ConnSNNone, Address: a.address(like, c.pid)}
			b, err := ask.Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			a.send(r, proto.IDWireup, b)
			a.until(r, "answer to the request", func() bool { return a.got[proto.IDWireup] != nil })
			reply, err := proto.ParseWireup(a.got[proto.IDWireup])
			if err != nil || reply.Type != proto.WireupReply {
				t.Fatalf("%+v, %v", reply, err)
			}
			buf := make([]byte, n)
			recv, err := v.TagRecv(7, ucp.FullMask, buf, nil)
			if err != nil {
				t.Fatal(err)
			}
			rts := proto.RndvRTS{Header: 7, EpID: reply.SrcEp, ReqID: 0x4003, Size: n,
				Address: addressOf(secret)}
			key := proto.NewRkey(ucs.MemoryHost.Wire())
			a.send(r, proto.IDRndvRTS, key.Append(rts.Append(nil)))
			a.until(r, "answer to the offer", func() bool {
				return a.got[proto.IDRndvRTR] != nil || a.got[proto.IDRndvATS] != nil
			})
			if read := a.got[proto.IDRndvATS] != nil; read != c.read {
				t.Errorf("read from the process: %v", read)
			}
			if c.read {
				r.must(recv, nil)
				if buf[0] != 0x5A || buf[n-1] != 0x5A {
					t.Error("the message is another one")
				}
			} else if buf[0] != 0 {
				t.Error("something was read")
			} else {
				v.Cancel(recv)
			}
		})
	}
}
