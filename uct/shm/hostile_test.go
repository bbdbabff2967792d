//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// both runs a test over posix and sysv.
func both(t *testing.T, test func(t *testing.T, f *ucttest.Fixture)) {
	for _, transport := range []string{posixName, sysvName} {
		t.Run(transport, func(t *testing.T) {
			needSegments(t, transport)
			noSegments(t)
			ucttest.NoLeaks(t)
			test(t, &ucttest.Fixture{Component: component{transport}})
		})
	}
}

// count registers a handler that counts the messages with an id.
func count(t *testing.T, h *ucttest.Host, id uct.AMID) *int {
	n := new(int)
	h.Handle(t, id, func(*uct.Source, []byte, *uct.AMDesc) error { *n++; return nil })
	return n
}

// talks checks that a new endpoint delivers 1000 messages.
func talks(t *testing.T, a, b *ucttest.Host) {
	t.Helper()
	n := count(t, b, 3)
	ep := a.Connect(t, b)
	for k := range 1000 {
		ucttest.Accept(t, func() error {
			if k%3 == 0 {
				_, err := ep.AMBcopy(3, &ucttest.Packer{Data: make([]byte, 2000)}, 0, nil)
				return err
			}
			return ep.AMShort(3, 0, nil, 0, nil)
		}, a, b)
	}
	ucttest.Until(t, "messages over the new ring", func() bool { return *n == 1000 }, a, b)
	ep.Close()
}

// TestHostileElements writes elements that no sender writes: the ring is closed, endpoints to it
// fail, and new ones work.
func TestHostileElements(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(i *iface)
	}{
		{"id", func(i *iface) { publishRaw(i, elementWord(flagInline, 32, 8)) }},
		{"id 255", func(i *iface) { publishRaw(i, elementWord(0xfe, 255, 8)) }},
		{"inline length", func(i *iface) { publishRaw(i, elementWord(flagInline, 3, 101)) }},
		{"inline length 65535", func(i *iface) { publishRaw(i, elementWord(flagInline, 3, 65535)) }},
		{"buffered length", func(i *iface) { publishRaw(i, elementWord(0, 3, 8257)) }},
		{"head too far", func(i *iface) { atomic.StoreUint64(i.rx.head, i.rx.read+257) }},
		{"head backwards", func(i *iface) { atomic.StoreUint64(i.rx.head, i.rx.read-1) }},
		{"head of a closed ring", func(i *iface) { atomic.StoreUint64(i.rx.head, beyond) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				logs := logtest.Watch(t)
				a, b := f.Pair(t)
				ep := a.Connect(t, b)
				n := count(t, b, 3)
				for range 5 {
					ucttest.Accept(t, func() error { return ep.AMShort(3, 0, nil, 0, nil) }, a, b)
				}
				ucttest.Until(t, "messages before", func() bool { return *n == 5 }, a, b)
				logs.Expect("invalid data in the ring")
				c.hurt(b.Iface.(*iface))
				i := b.Iface.(*iface)
				ucttest.Until(t, "the ring to be given up", func() bool { return i.renewals == 1 }, b)
				err := ep.AMShort(3, 0, nil, 0, nil)
				ucttest.WantStatus(t, "sending to a ring that was given up", err, ucs.ErrConnectionReset)
				ucttest.Until(t, "the failure to be reported", func() bool { return a.Failed(ep) != nil }, a)
				talks(t, a, b)
				if *n != 5 {
					t.Errorf("%d messages of the old ring", *n)
				}
			})
		})
	}
}

// publishRaw publishes the next element of the local ring with a word of choice.
func publishRaw(i *iface, w uint32) {
	r := &i.rx
	atomic.AddUint64(r.head, 1)
	atomic.StoreUint32(word32(r.elems, r.pos), w&^flagPhase|r.phase)
}

// TestHostileNoise writes random words over the ring again and again. Nothing may panic, and the
// interface stops replacing its ring after a bounded number of times.
func TestHostileNoise(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		logs := logtest.Watch(t)
		logs.Allow("invalid data in the ring")
		logs.Allow("handler")
		logs.Allow("has written to the receiver's part")
		a, b := f.Pair(t)
		i := b.Iface.(*iface)
		random := rand.New(rand.NewPCG(1, 2))
		var last []byte
		var kept []*uct.AMDesc
		for id := range uct.AMID(uct.MaxAMIDs) {
			b.Handle(t, id, func(_ *uct.Source, data []byte, desc *uct.AMDesc) error {
				last = append(last[:0], data...) // every byte can be read
				if desc != nil && len(kept) < 100 {
					kept = append(kept, desc)
					return ucs.InProgress
				}
				return nil
			})
		}
		for round := 0; round < 300 && !i.dead; round++ {
			ep, _ := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
			mem := i.rx.seg.mem[:ringSize(i.rx.n, i.rx.elem)]
			for k := 0; k+8 <= len(mem); k += 8 {
				if random.IntN(4) == 0 {
					binary.LittleEndian.PutUint64(mem[k:], random.Uint64())
				}
			}
			// The sender sees the same random words.
			if ep != nil {
				for range 10 {
					ep.AMShort(1, 2, nil, 0, nil)
					ep.AMBcopy(1, &ucttest.Packer{Data: make([]byte, 8256)}, 0, nil)
					ep.Check(nil)
				}
			}
			ucttest.Progress(a, b)
			for range 3 * watchEvery {
				b.Worker.Progress()
			}
			b.Iface.(uct.Progressor).Arm(uct.EventAny)
			if ep != nil {
				ep.PendingPurge(func(*uct.Pending) {})
				ep.Close()
			}
		}
		if !i.dead || i.renewals != maxRenewals {
			t.Errorf("after %d renewals the ring lives: %v", i.renewals, !i.dead)
		}
		if err := b.Iface.(uct.Progressor).Arm(uct.EventAny); err != nil {
			t.Errorf("arming without a ring: %v", err)
		}
		_, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
		ucttest.WantStatus(t, "endpoint to an interface without a ring", err, ucs.ErrUnreachable)
		for _, d := range kept {
			d.Release()
		}
		// Other interfaces are unaffected.
		talks(t, b, a)
	})
}

// TestHostileDescriptors: a receiver's ring names buffers that do not exist. The endpoint fails
// before it claims an element.
func TestHostileDescriptors(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(d *descriptor)
	}{
		{"no segment", func(d *descriptor) { *d = descriptor{} }},
		{"segment that is not there", func(d *descriptor) { d.seg ^= 1 << 40 }},
		{"segment of another process", func(d *descriptor) { d.seg ^= 1 << 3 }},
		{"offset behind the segment", func(d *descriptor) { d.offset = d.size }},
		{"offset at the end of everything", func(d *descriptor) { d.offset = ^uint32(0) }},
		{"size of everything", func(d *descriptor) { d.size, d.offset = ^uint32(0), ^uint32(0)-8256 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				a, b := f.Pair(t)
				ep := a.Connect(t, b)
				r := &b.Iface.(*iface).rx
				for k := range r.n {
					e := r.elems[k*r.elem : (k+1)*r.elem]
					d := readDescriptor(e)
					c.hurt(&d)
					d.put(e)
				}
				p := &ucttest.Packer{Data: make([]byte, 8)}
				if _, err := ep.AMBcopy(1, p, 0, nil); err == nil || p.Calls != 0 || errors.Is(err, ucs.ErrNoResource) {
					t.Errorf("a message to a bad buffer: %v, packed %d times", err, p.Calls)
				}
				if h := atomic.LoadUint64(r.head); h != 0 {
					t.Errorf("head is %d", h)
				}
				ucttest.Until(t, "the failure", func() bool { return a.Failed(ep) != nil }, a)
				if strings.HasPrefix(c.name, "size") {
					return // a segment may be of any size
				}
				err := a.Iface.Reachable(uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
				if c.name != "segment that is not there" && (c.name != "segment of another process" || f.Component.Name() == posixName) {
					ucttest.WantStatus(t, "reaching a ring with such buffers", err, ucs.ErrUnreachable)
				}
			})
		})
	}
}

// TestHostileHeader connects to rings whose header is wrong.
func TestHostileHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(ring []byte)
		ok   bool
	}{
		{"process", func(b []byte) { binary.LittleEndian.PutUint32(b[pidOffset:], 1<<30) }, false},
		{"process 0", func(b []byte) { binary.LittleEndian.PutUint32(b[pidOffset:], 0) }, false},
		{"closed", func(b []byte) { binary.LittleEndian.PutUint32(b[addrLenOffset:], 0) }, false},
		{"long wakeup address", func(b []byte) { binary.LittleEndian.PutUint32(b[addrLenOffset:], 111) }, true},
		{"wakeup by path", func(b []byte) { copy(b[addrOffset+2:], "/dev/log") }, true},
		{"wakeup by network", func(b []byte) { b[addrOffset] = 2 }, true},
		{"tail ahead", func(b []byte) { binary.LittleEndian.PutUint64(b[tailOffset:], 1000) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, f *ucttest.Fixture) {
				a, b := f.Pair(t)
				c.hurt(b.Iface.(*iface).rx.seg.mem)
				ep, err := a.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()})
				if !c.ok {
					ucttest.WantStatus(t, "endpoint", err, ucs.ErrUnreachable)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if w := ep.(*endpoint).wakeup; w != "" && !strings.HasPrefix(c.name, "tail") {
					t.Errorf("would wake %q", w)
				}
				b.Iface.(uct.Progressor).Arm(uct.EventAny)
				for range 300 { // the last ones find the ring full
					if err := ep.AMShort(1, 2, nil, 0, nil); err != nil && err != ucs.ErrNoResource {
						t.Fatal(err)
					}
				}
				ep.Close()
			})
		})
	}
}

// TestForeignKeys unpacks corrupted keys.
func TestForeignKeys(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		mem := b.Expose(t, make([]byte, 4096), uct.AccessAll)
		packed, err := b.Domain.AppendKey(nil, mem.Handle)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 8 * len(packed) {
			bad := append([]byte(nil), packed...)
			bad[k/8] ^= 1 << (k % 8)
			key, err := a.Domain.UnpackRkey(bad)
			if err != nil {
				continue
			}
			// A key that unpacks is a part of a real segment, perhaps at another address.
			rk := key.Handle.(*remoteKey)
			if rk.length > uint64(len(rk.seg.mem)) || rk.base%uint64(pageSize) != 0 {
				t.Errorf("bit %d: %d bytes at %#x of a segment of %d", k, rk.length, rk.base, len(rk.seg.mem))
			}
			if err := a.Domain.ReleaseRkey(key); err != nil {
				t.Error(err)
			}
			ucttest.WantStatus(t, "releasing a key twice", a.Domain.ReleaseRkey(key), ucs.ErrInvalidParam)
			_, err = a.Domain.RkeyPtr(key, rk.base, 8)
			ucttest.WantStatus(t, "pointer of a key that was released", err, ucs.ErrInvalidParam)
		}
		ep := a.Connect(t, b)
		key := a.Key(t, mem)
		for _, bad := range []*uct.Rkey{nil, {}, {Handle: 5}, {Value: key.Value}} {
			ucttest.WantStatus(t, "put with a foreign key", ep.(uct.RMA).PutShort(make([]byte, 8), mem.Addr, bad), ucs.ErrInvalidParam)
		}
		if _, err := a.Domain.RkeyPtr(&uct.Rkey{}, mem.Addr, 8); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("pointer of a foreign key: %v", err)
		}
		for _, c := range []struct {
			off int64
			n   int
		}{{-1, 8}, {4089, 8}, {0, 4097}, {4097, 0}, {0, -1}} {
			if _, err := a.Domain.RkeyPtr(key, mem.Addr+uint64(c.off), c.n); !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("pointer to %d bytes at %d: %v", c.n, c.off, err)
			}
		}
	})
}
