package ucttest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// accessKind is one operation that reads or writes a peer's memory.
type accessKind struct {
	name   string
	flag   uct.IfaceFlags
	want   uct.Access // permission the peer must give
	limits func(a *uct.IfaceAttr) (lo, hi int)
	// start starts the access of buf to addr. For reads, buf is complete when the operation has
	// ended.
	start func(r *remoteAccess, buf []byte, addr uint64, c *uct.Completion) error
}

var putKinds = []accessKind{
	{
		name: "put short", flag: uct.IfacePutShort, want: uct.AccessRemotePut,
		limits: func(a *uct.IfaceAttr) (int, int) { return 0, a.Put.MaxShort },
		start: func(r *remoteAccess, buf []byte, addr uint64, _ *uct.Completion) error {
			return r.rma.PutShort(buf, addr, r.key)
		},
	},
	{
		name: "put bcopy", flag: uct.IfacePutBcopy, want: uct.AccessRemotePut,
		limits: func(a *uct.IfaceAttr) (int, int) { return 0, a.Put.MaxBcopy },
		start: func(r *remoteAccess, buf []byte, addr uint64, _ *uct.Completion) error {
			p := &Packer{Data: buf}
			n, err := r.rma.PutBcopy(p, len(buf), addr, r.key)
			if accepted(err) != (p.Calls == 1) || accepted(err) && n != len(buf) {
				r.t.Fatalf("PutBcopy of %d bytes: %d, %v after %d calls of Pack", len(buf), n, err, p.Calls)
			}
			return err
		},
	},
	{
		name: "put zcopy", flag: uct.IfacePutZcopy, want: uct.AccessRemotePut,
		limits: func(a *uct.IfaceAttr) (int, int) { return a.Put.MinZcopy, a.Put.MaxZcopy },
		start: func(r *remoteAccess, buf []byte, addr uint64, c *uct.Completion) error {
			return r.rma.PutZcopy(r.iov(buf, r.a.Iface.Attr().Put.MaxIOV), addr, r.key, c)
		},
	},
}

var getKinds = []accessKind{
	{
		name: "get bcopy", flag: uct.IfaceGetBcopy, want: uct.AccessRemoteGet,
		limits: func(a *uct.IfaceAttr) (int, int) { return 0, a.Get.MaxBcopy },
		start: func(r *remoteAccess, buf []byte, addr uint64, c *uct.Completion) error {
			r.unpacker = &copyOut{dst: buf}
			return r.rma.GetBcopy(r.unpacker, len(buf), addr, r.key, c)
		},
	},
	{
		name: "get zcopy", flag: uct.IfaceGetZcopy, want: uct.AccessRemoteGet,
		limits: func(a *uct.IfaceAttr) (int, int) { return a.Get.MinZcopy, a.Get.MaxZcopy },
		start: func(r *remoteAccess, buf []byte, addr uint64, c *uct.Completion) error {
			return r.rma.GetZcopy(r.iov(buf, r.a.Iface.Attr().Get.MaxIOV), addr, r.key, c)
		},
	},
}

// accessKinds returns the kinds in list that an iface supports.
func accessKinds(a *uct.IfaceAttr, list []accessKind) []accessKind {
	var have []accessKind
	for _, k := range list {
		if a.Flags&k.flag != 0 {
			have = append(have, k)
		}
	}
	return have
}

// copyOut is a uct.Unpacker that fills a buffer.
type copyOut struct {
	dst   []byte
	calls int
	n     int
}

func (u *copyOut) Unpack(src []byte) {
	u.calls++
	u.n = copy(u.dst, src)
}

// remoteAccess is an endpoint from a to b with exposed memory of b.
type remoteAccess struct {
	t        *testing.T
	a, b     *Host
	ep       uct.Endpoint
	rma      uct.RMA    // nil if the endpoint does not implement it
	atomic   uct.Atomic // nil if the endpoint does not implement it
	mem      *Memory
	key      *uct.Rkey
	unpacker *copyOut // unpacker of the last GetBcopy
}

// newRemoteAccess connects two hosts and exposes buf on the second.
func newRemoteAccess(t *testing.T, f *Fixture, buf []byte, access uct.Access) *remoteAccess {
	t.Helper()
	r := &remoteAccess{t: t}
	r.a, r.b = f.Pair(t)
	r.ep = r.a.Connect(t, r.b)
	r.rma, _ = r.ep.(uct.RMA)
	r.atomic, _ = r.ep.(uct.Atomic)
	r.mem = r.b.Expose(t, buf, access)
	r.key = r.a.Key(t, r.mem)
	return r
}

// iov makes a list of at most three entries, or of limit entries if that is less.
func (r *remoteAccess) iov(buf []byte, limit int) []uct.IOV {
	if len(buf) == 0 {
		return nil
	}
	var list []uct.IOV
	for _, part := range split(buf, min(3, limit)) {
		list = append(list, r.a.IOV(r.t, part))
	}
	return list
}

// do runs an access and a flush to their end and returns the first error, including an error of
// the endpoint.
func (r *remoteAccess) do(k *accessKind, buf []byte, addr uint64) error {
	r.t.Helper()
	return r.finish(func(c *uct.Completion) error { return k.start(r, buf, addr, c) })
}

// finish runs op and a flush to their end and returns the first error of op, the
// endpoint and the flush.
func (r *remoteAccess) finish(op func(c *uct.Completion) error) error {
	r.t.Helper()
	hosts := []*Host{r.a, r.b}
	for i, call := range []func(c *uct.Completion) error{
		op,
		func(c *uct.Completion) error { return r.ep.Flush(uct.FlushRemote, c) },
	} {
		c := NewCompletion(1)
		var err error
		over := func() bool {
			return err != ucs.InProgress || c.Fired > 0 || r.a.Failed(r.ep) != nil
		}
		Until(r.t, "resources", func() bool {
			err = call(&c.Completion)
			return err != ucs.ErrNoResource
		}, hosts...)
		Until(r.t, "the operation", over, hosts...)
		switch {
		case r.a.Failed(r.ep) != nil:
			return r.a.Failed(r.ep)
		case !accepted(err):
			return err
		case c.Err != nil:
			return c.Err
		case i == 0 && err == nil && c.Fired > 0:
			r.t.Fatal("an operation completed in the call, and its completion callback ran too")
		}
	}
	return nil
}
