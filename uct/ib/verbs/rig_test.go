//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// eventTimeout bounds the wait for an event that should happen.
const eventTimeout = 2 * time.Minute

// rig is a device for tests: a simulated or a real one.
type rig struct {
	open   func(t *testing.T) *verbs.Context // opens the device once more
	kernel *verbstest.Kernel                 // nil for a real device
	file   func() verbs.File                 // opens a file of kernel
	behind bool                              // the device works on its own goroutine
	run    func()                            // makes a simulated device work; nil: kernel.Progress
	local  verbs.GIDEntry
	gid    verbs.GID // the GID in local
	mtu    verbs.MTU
	lid    verbs.LID // for InfiniBand
	peer   *rig      // device of the peers; nil: this one
}

// fakeRig returns a rig of a simulated device.
func fakeRig(t *testing.T) *rig {
	t.Helper()
	ucttest.NoLeaks(t)
	return kernelRig(t, verbstest.New())
}

// fabricRig returns a rig of one of two simulated devices in a network; peer is the other.
func fabricRig(t *testing.T) *rig {
	t.Helper()
	ucttest.NoLeaks(t)
	return fabricRigs(t, verbstest.NewFabric(), verbstest.Config{Endless: true}, verbstest.Config{Endless: true})
}

// fabricRigs adds two devices to a network.
func fabricRigs(t *testing.T, n *verbstest.Fabric, a, b verbstest.Config) *rig {
	t.Helper()
	r, peer := kernelRig(t, n.Add(a)), kernelRig(t, n.Add(b))
	r.peer, peer.peer = peer, r
	return r
}

// kernelRig returns a rig of a simulated device.
func kernelRig(t *testing.T, k *verbstest.Kernel) *rig {
	t.Helper()
	t.Cleanup(func() {
		if k.Objects() != 0 || k.Mapped() != 0 {
			t.Errorf("%d objects and %d mappings left behind", k.Objects(), k.Mapped())
		}
		for _, rule := range k.Broken() {
			t.Error(rule)
		}
	})
	r := &rig{kernel: k, file: k.Open}
	r.open = func(t *testing.T) *verbs.Context {
		t.Helper()
		c, err := verbs.NewContext(r.file(), k.ABI())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Errorf("closing the device: %v", err)
			}
		})
		return c
	}
	r.find(t)
	return r
}

// find chooses the GID of the rig.
func (r *rig) find(t *testing.T) {
	t.Helper()
	c := r.open(t)
	port := must(c.QueryPort(1))(t)
	r.mtu, r.lid = port.ActiveMTU, port.LID
	r.local = must(c.DefaultGID(1))(t)
	r.gid = r.local.GID
	check(t, c.Close())
}

// side is one end of a connection.
type side struct {
	r   *rig
	ctx *verbs.Context
	pd  *verbs.PD
	cq  *verbs.CQ
	qp  *verbs.QP
	mr  *verbs.MR
	buf []byte
}

const bufSize = 64 << 10

// fullAccess allows peers all kinds of access.
const fullAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// option changes the attributes of a queue pair before it is created.
type option func(*verbs.QPInitAttr)

// newSide opens the device and creates one object of each kind.
func (r *rig) newSide(t *testing.T, typ verbs.QPType, opts ...option) *side {
	t.Helper()
	c := r.open(t)
	s := &side{r: r, ctx: c, pd: must(c.AllocPD())(t)}
	ch := must(c.CreateCompChannel())(t)
	s.cq = must(c.CreateCQ(256, ch, 0))(t)
	s.buf = make([]byte, bufSize)
	s.mr = must(s.pd.RegMR(s.buf, fullAccess))(t)
	s.newQP(t, typ, opts...)
	return s
}

func (s *side) newQP(t *testing.T, typ verbs.QPType, opts ...option) {
	t.Helper()
	a := &verbs.QPInitAttr{Type: typ, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 128}}
	for _, o := range opts {
		o(a)
	}
	s.qp = must(s.pd.CreateQP(a))(t)
}

// qkey is the Q_Key of the C examples.
const qkey = 0x11111111

// up takes the queue pair to RTS, connected to peer unless it is UD.
func (s *side) up(t *testing.T, peer *side, change ...func(*verbs.QPAttr)) {
	t.Helper()
	s.toInit(t)
	s.toRTS(t, peer, change...)
}

func (s *side) toInit(t *testing.T) {
	t.Helper()
	check(t, s.qp.Init(&verbs.QPAttr{Port: uint8(s.r.local.Port), QKey: qkey, Access: fullAccess}))
}

// path returns the path from the port to itself.
func (r *rig) path() verbs.AHAttr { return r.to(r) }

// to returns the path to the port of another rig.
func (r *rig) to(peer *rig) verbs.AHAttr {
	a := r.local.To(peer.gid)
	a.DLID = peer.lid
	return a
}

func (s *side) toRTS(t *testing.T, peer *side, change ...func(*verbs.QPAttr)) {
	t.Helper()
	a := &verbs.QPAttr{PathMTU: s.r.mtu, AH: s.r.path(), RQPSN: 0x111, SQPSN: 0x111,
		MaxDestRdAtomic: 4, MaxRdAtomic: 4, MinRNRTimer: 1, Timeout: 18, RetryCount: 6, RNRRetry: 6} // seconds: slow machines
	if peer != nil {
		a.DestQPN, a.AH = peer.qp.QPN(), s.r.to(peer.r)
	}
	for _, f := range change {
		f(a)
	}
	check(t, s.qp.Connect(a))
}

// by makes objects created from now on use another GID.
func (r *rig) by(t *testing.T, port, index int) *rig {
	t.Helper()
	r.local = must(r.open(t).QueryGID(port, index))(t)
	r.gid = r.local.GID
	return r
}

// other returns the device of the peers.
func (r *rig) other() *rig {
	if r.peer != nil {
		return r.peer
	}
	return r
}

// pair creates two ends and connects them.
func (r *rig) pair(t *testing.T, typ verbs.QPType, change ...func(*verbs.QPAttr)) (a, b *side) {
	t.Helper()
	a, b = r.newSide(t, typ), r.other().newSide(t, typ)
	a.up(t, b, change...)
	b.up(t, a, change...)
	return a, b
}

// poll waits for n completions.
func (s *side) poll(t *testing.T, n int) []verbs.WC {
	t.Helper()
	wc := make([]verbs.WC, n)
	got := 0
	for end := time.Now().Add(eventTimeout); got < n; {
		k := s.cq.Poll(wc[got:])
		got += k
		if k > 0 {
			continue
		}
		if time.Now().After(end) {
			t.Fatalf("%d completions of %d: %+v", got, n, wc[:got])
		}
		if s.r.run != nil {
			s.r.run()
		} else if s.r.kernel != nil {
			s.r.kernel.Progress()
		}
		runtime.Gosched()
	}
	return wc
}

// done waits for one completion, which must be successful.
func (s *side) done(t *testing.T, id uint64, op verbs.WCOpcode) verbs.WC {
	t.Helper()
	wc := s.poll(t, 1)[0]
	if wc.Err() != nil || wc.ID != id || wc.Opcode != op || wc.QPN != s.qp.QPN() {
		t.Fatalf("%+v (%v), want %d %v on QP %#x", wc, wc.Err(), id, op, s.qp.QPN())
	}
	return wc
}

func (s *side) send(t *testing.T, wr ...verbs.SendWR) {
	t.Helper()
	if n, err := s.qp.PostSend(wr); err != nil || n != len(wr) {
		t.Fatalf("%d of %d sends posted: %v", n, len(wr), err)
	}
}

func (s *side) recv(t *testing.T, wr ...verbs.RecvWR) {
	t.Helper()
	if n, err := s.qp.PostRecv(wr); err != nil || n != len(wr) {
		t.Fatalf("%d of %d receives posted: %v", n, len(wr), err)
	}
}

// fill writes a pattern.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)
	}
}

func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns a function that returns v or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// wantErr checks that an error is want.
func wantErr(t *testing.T, err, want error, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}
