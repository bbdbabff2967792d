//go:build linux

package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestNoAllocations covers what the conformance suite does not: kept
// descriptors, waiting requests, one-sided operations, checks and wakeups.
func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("allocation test: the race detector allocates")
	}
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			f := &ucttest.Fixture{Component: c.component, Config: setting(t, c.settings)}
			a, b := f.Pair(t)
			ep := a.Connect(t, b)
			got := 0
			b.Handle(t, 1, func(_ *uct.Source, _ []byte, desc *uct.AMDesc) error {
				got++
				if desc != nil {
					desc.Release()
					return ucs.InProgress
				}
				return nil
			})
			var desc *uct.AMDesc
			b.Handle(t, 2, func(_ *uct.Source, _ []byte, d *uct.AMDesc) error {
				got++
				if desc = d; d != nil {
					return ucs.InProgress
				}
				return nil
			})
			mem := b.Expose(t, make([]byte, 4096), uct.AccessAll)
			key := a.Key(t, mem)
			buf := make([]byte, 64)
			packer := &ucttest.Packer{Data: buf}
			var unpacker uct.Unpacker = into(buf)
			var r32 uint32
			var r64 uint64
			pend := ucttest.NewPending(func() error { return ep.AMShort(1, 0, nil, 0, nil) })
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			drain := func() {
				for b.Worker.Progress() > 0 || a.Worker.Progress() > 0 {
				}
			}
			for name, run := range map[string]func(){
				"kept": func() {
					_, err := ep.AMBcopy(2, packer, 0, nil)
					must(err)
					drain()
					if desc != nil {
						desc.Release()
					}
				},
				"given back in the handler": func() {
					_, err := ep.AMBcopy(1, packer, 0, nil)
					must(err)
					drain()
				},
				"pending": func() {
					for ep.AMShort(1, 0, nil, 0, nil) == nil {
					}
					must(ep.PendingAdd(&pend.Pending))
					drain()
				},
				"put":       func() { must(ep.(uct.RMA).PutShort(buf, mem.Addr, key)) },
				"put bcopy": func() { _, err := ep.(uct.RMA).PutBcopy(packer, len(buf), mem.Addr, key); must(err) },
				"get":       func() { must(ep.(uct.RMA).GetBcopy(unpacker, len(buf), mem.Addr, key, nil)) },
				"post 32":   func() { must(ep.(uct.Atomic).Atomic32Post(uct.AtomicAdd, 1, mem.Addr, key)) },
				"post 64":   func() { must(ep.(uct.Atomic).Atomic64Post(uct.AtomicOr, 1, mem.Addr, key)) },
				"fetch 32":  func() { must(ep.(uct.Atomic).Atomic32Fetch(uct.AtomicAdd, 1, &r32, mem.Addr, key, nil)) },
				"fetch 64":  func() { must(ep.(uct.Atomic).Atomic64Fetch(uct.AtomicSwap, 1, &r64, mem.Addr, key, nil)) },
				"cswap 32":  func() { must(ep.(uct.Atomic).AtomicCSwap32(1, 2, mem.Addr, key, &r32, nil)) },
				"cswap 64":  func() { must(ep.(uct.Atomic).AtomicCSwap64(1, 2, mem.Addr, key, &r64, nil)) },
				"check":     func() { must(ep.Check(nil)) },
				"blocked": func() {
					for ep.AMShort(1, 0, nil, 0, nil) == nil {
					}
					must(ep.PendingAdd(&pend.Pending))
					for k := 0; k < 2 || a.Worker.Arm() != nil; k++ {
						a.Worker.Progress()
						a.Iface.(*iface).blocked.since -= pollTime
					}
					drain()
				},
				"wakeup": func() {
					for b.Worker.Arm() != nil {
						b.Worker.Progress()
					}
					must(ep.AMShort(1, 0, nil, 0, nil))
					drain()
				},
			} {
				for range 100 {
					run()
				}
				if n := testing.AllocsPerRun(100, run); n != 0 {
					t.Errorf("%s: %v allocations", name, n)
				}
			}
		})
	}
}

// TestMemory allocates memory in every supported way.
func TestMemory(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		md, err := f.Component.OpenMD(f.Component.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		alloc := func(p uct.AllocParams) uct.MemHandle {
			t.Helper()
			m, err := md.Alloc(p)
			if err != nil {
				t.Fatalf("%+v: %v", p, err)
			}
			b := m.Bytes()
			if len(b) < p.Length || len(b)%pageSize != 0 || addressOf(b)%uint64(pageSize) != 0 {
				t.Errorf("%+v: %d bytes at %#x", p, len(b), addressOf(b))
			}
			b[0], b[len(b)-1] = 1, 2
			return m
		}
		m := alloc(uct.AllocParams{Length: 1})
		at := addressOf(m.Bytes())
		if err := md.Close(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("closing with an allocation: %v", err)
		}
		if _, err := md.Alloc(uct.AllocParams{Length: 1, Address: at, Fixed: true}); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("allocating on top of another allocation: %v", err)
		}
		hint := alloc(uct.AllocParams{Length: 1, Address: at})
		if err := md.Deregister(m); err != nil {
			t.Fatal(err)
		}
		ucttest.WantStatus(t, "freeing twice", md.Deregister(m), ucs.ErrInvalidParam)
		if _, err := md.AppendKey(nil, m); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("key of what was freed: %v", err)
		}
		fixed, err := md.Alloc(uct.AllocParams{Length: 1, Address: at, Fixed: true, Nonblock: true})
		if err != nil && !errors.Is(err, ucs.ErrBusy) { // another thread may have mapped something
			t.Error(err)
		}
		if err == nil {
			if got := addressOf(fixed.Bytes()); got != at {
				t.Errorf("fixed memory at %#x, want %#x", got, at)
			}
			if err := md.Deregister(fixed); err != nil {
				t.Error(err)
			}
		}
		big := alloc(uct.AllocParams{Length: 5 << 20, Nonblock: true})
		for _, h := range []uct.MemHandle{hint, big} {
			if err := md.Deregister(h); err != nil {
				t.Error(err)
			}
		}
		for _, p := range []uct.AllocParams{
			{}, {Length: -1}, {Length: 1, Fixed: true}, {Length: 1, Fixed: true, Address: at + 1},
		} {
			if _, err := md.Alloc(p); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%+v: %v", p, err)
			}
		}
		for _, n := range []int{min(1<<46, math.MaxInt), math.MaxInt} {
			if _, err := md.Alloc(uct.AllocParams{Length: n, Nonblock: true}); !errors.Is(err, ucs.ErrNoMemory) {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		ucttest.WantStatus(t, "freeing a foreign handle", md.Deregister(nil), ucs.ErrInvalidParam)
		if err := md.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestKeptMemory: an unpacked key keeps memory after it was freed, for operations that still read
// it. No operation can be started with the key any more, and it does not give access to other
// memory that gets the same name.
func TestKeptMemory(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		first := b.Expose(t, ucttest.Pattern(4096, 1), uct.AccessAll)
		packed, _ := b.Domain.AppendKey(nil, first.Handle)
		key := a.Key(t, first)
		again := a.Key(t, first)
		if n := a.Domain.(*domain).attached.len(); n != 3 { // the ring, its buffers and the memory
			t.Errorf("%d segments attached", n)
		}
		current := func(what string, k *uct.Rkey, want bool) {
			t.Helper()
			if got := a.Domain.(uct.MappedMemory).RkeyCurrent(k); got != want {
				t.Errorf("%s: current %v", what, got)
			}
		}
		current("key of live memory", key, true)
		if a.Domain.(uct.MappedMemory).RkeyAbandoned(key) {
			t.Error("live memory is abandoned")
		}
		if n := testing.AllocsPerRun(10, func() { current("key of live memory", key, true) }); n != 0 && !race.Enabled {
			t.Errorf("%v allocations", n)
		}
		first.Close(t)
		current("key of memory that is gone", key, false)
		if !a.Domain.(uct.MappedMemory).RkeyAbandoned(key) {
			t.Error("memory that is gone is not abandoned")
		}
		second := b.Expose(t, ucttest.Pattern(4096, 2), uct.AccessAll)
		other := a.Key(t, second) // posix: the same descriptor number
		current("key whose name other memory has", key, false)
		current("its own key", other, true)
		current("foreign key", &uct.Rkey{}, false)
		got := make([]byte, 4096)
		for k, c := range map[*uct.Rkey]struct{ addr, want uint64 }{
			key: {first.Addr, 1}, again: {first.Addr, 1}, other: {second.Addr, 2},
		} {
			b, err := a.Domain.RkeyPtr(k, c.addr, 4096)
			if err != nil {
				t.Fatal(err)
			}
			ucttest.SameBytes(t, "memory", b, ucttest.Pattern(4096, c.want))
		}
		if err := ep.(uct.RMA).GetBcopy(into(got), 4096, second.Addr, other, nil); err != nil {
			t.Fatal(err)
		}
		ucttest.SameBytes(t, "memory", got, ucttest.Pattern(4096, 2))
		if f.Component.Name() == posixName && packed[0] != 0 {
			second.Close(t)
			if _, err := a.Domain.UnpackRkey(packed); !errors.Is(err, ucs.ErrUnreachable) {
				t.Errorf("key of memory that is gone: %v", err)
			}
		}
	})
}

// TestRevoked: once the owner of memory has revoked access, every operation on it fails and has no
// effect. The memory itself stays until it is freed.
func TestRevoked(t *testing.T) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			f := &ucttest.Fixture{Component: c.component, Config: setting(t, c.settings)}
			a, b := f.Pair(t)
			ep := a.Connect(t, b)
			mem := b.Expose(t, ucttest.Pattern(8192, 1), uct.AccessAll)
			key := a.Key(t, mem)
			buf := make([]byte, 64)
			var r32 uint32
			var r64 uint64
			ops := map[string]func() error{
				"put": func() error { return ep.(uct.RMA).PutShort(buf, mem.Addr, key) },
				"put bcopy": func() error {
					_, err := ep.(uct.RMA).PutBcopy(&ucttest.Packer{Data: buf}, len(buf), mem.Addr, key)
					return err
				},
				"get":      func() error { return ep.(uct.RMA).GetBcopy(into(make([]byte, 64)), 64, mem.Addr, key, nil) },
				"post 32":  func() error { return ep.(uct.Atomic).Atomic32Post(uct.AtomicAdd, 1, mem.Addr, key) },
				"post 64":  func() error { return ep.(uct.Atomic).Atomic64Post(uct.AtomicXor, 1, mem.Addr, key) },
				"fetch 32": func() error { return ep.(uct.Atomic).Atomic32Fetch(uct.AtomicAdd, 1, &r32, mem.Addr, key, nil) },
				"fetch 64": func() error { return ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 1, &r64, mem.Addr, key, nil) },
				"cswap 32": func() error { return ep.(uct.Atomic).AtomicCSwap32(1, 2, mem.Addr, key, &r32, nil) },
				"cswap 64": func() error { return ep.(uct.Atomic).AtomicCSwap64(1, 2, mem.Addr, key, &r64, nil) },
			}
			for name, do := range ops {
				if err := do(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			own := mem.Handle.Bytes()
			copy(own, ucttest.Pattern(8192, 2))
			b.Domain.(uct.MappedMemory).Revoke(mem.Handle)
			b.Domain.(uct.MappedMemory).Revoke(mem.Handle)
			for name, do := range ops {
				ucttest.WantStatus(t, name, do(), ucs.ErrInvalidAddr)
			}
			ucttest.SameBytes(t, "the memory", own, ucttest.Pattern(8192, 2))
			seen, err := a.Domain.RkeyPtr(key, mem.Addr, 8192)
			if err != nil {
				t.Fatal(err)
			}
			ucttest.SameBytes(t, "the memory as a reader sees it", seen, ucttest.Pattern(8192, 2))
			// A key unpacked afterwards gives no access either.
			late := a.Key(t, mem)
			ucttest.WantStatus(t, "put with a late key", ep.(uct.RMA).PutShort(buf, mem.Addr, late), ucs.ErrInvalidAddr)
			if _, err := a.Domain.RkeyPtr(late, mem.Addr, len(own)+1); !errors.Is(err, ucs.ErrInvalidAddr) {
				t.Errorf("the page behind the memory: %v", err)
			}
		})
	}
}

// TestNoRoomBehind: memory can be allocated at a fixed address that another mapping follows. It has
// no key, as access of peers to it could not be revoked.
func TestNoRoomBehind(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		md, err := f.Component.OpenMD(f.Component.Name(), nil)
		if err != nil {
			t.Fatal(err)
		}
		around, err := unix.Mmap(-1, 0, 4*pageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		addr := addressOf(around)
		// The first of the four pages becomes free, the others stay.
		if err := unmapPages(addr, pageSize); err != nil {
			t.Fatal(err)
		}
		m, err := md.Alloc(uct.AllocParams{Length: pageSize, Address: addr, Fixed: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(m.Bytes()); got != addr || len(m.Bytes()) != pageSize {
			t.Errorf("%d bytes at %#x, want a page at %#x", len(m.Bytes()), got, addr)
		}
		if _, err := md.AppendKey(nil, m); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("key: %v", err)
		}
		if err := md.Deregister(m); err != nil {
			t.Error(err)
		}
		if err := unmapPages(addr+uint64(pageSize), 3*pageSize); err != nil {
			t.Error(err)
		}
		if err := md.Close(); err != nil {
			t.Error(err)
		}
	})
}

// unmapPages unmaps part of a mapping, whose slice is not used again.
func unmapPages(addr uint64, n int) error {
	if _, _, e := unix.Syscall(unix.SYS_MUNMAP, uintptr(addr), uintptr(n), 0); e != 0 {
		return e
	}
	return nil
}

// TestKeptDescriptors: a message that a handler keeps stays valid after its interface was closed.
func TestKeptDescriptors(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		var data []byte
		var desc *uct.AMDesc
		b.Handle(t, 1, func(_ *uct.Source, d []byte, x *uct.AMDesc) error {
			data, desc = d, x
			return ucs.InProgress
		})
		ep := a.Connect(t, b)
		if _, err := ep.AMBcopy(1, &ucttest.Packer{Data: ucttest.Pattern(500, 3)}, 0, nil); err != nil {
			t.Fatal(err)
		}
		ucttest.Until(t, "the message", func() bool { return desc != nil }, b)
		b.Close(t)
		ucttest.SameBytes(t, "kept message", data, ucttest.Pattern(500, 3))
		desc.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a second release went unnoticed")
				}
			}()
			desc.Release()
		}()
	})
}

// TestFullDirectory fills the directory of shared memory: the error says how much is needed, how
// much there is and what helps, and nothing is left behind.
func TestFullDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		needtest.Right(t, fmt.Sprintf("the right to mount a file system: %v", err))
	}
	defer unix.Unmount(dir, 0)
	ucttest.NoLeaks(t)
	open := func(settings map[string]string) error {
		cfg := setting(t, settings)
		md, err := component{posixName}.OpenMD(posixName, cfg)
		if err != nil {
			return err
		}
		defer md.Close()
		w, err := uct.NewWorker()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		i, err := md.OpenIface(w, uct.IfaceParams{Transport: posixName, Device: deviceName}, cfg)
		if err == nil {
			err = i.Close()
		}
		return err
	}
	named := map[string]string{"POSIX_USE_PROC_LINK": "n", "POSIX_DIR": dir}
	err := open(named)
	ucttest.WantStatus(t, "a directory that is too small", err, ucs.ErrNoMemory)
	for _, part := range []string{"need 4227072 bytes", dir + " has ", " free", "remount"} {
		if err != nil && !contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("%v left behind", list)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	err = open(named)
	ucttest.WantStatus(t, "a directory that is read-only", err, ucs.ErrShmemSegment)
	if err != nil && !contains(err.Error(), "UCX_POSIX_DIR") {
		t.Errorf("%q does not say what helps", err)
	}
	// Memory without names does not need it.
	if err := open(map[string]string{"POSIX_DIR": dir}); err != nil {
		t.Error(err)
	}
}

// TestManyChunks opens rings whose descriptors need more than one chunk.
func TestManyChunks(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		f.Config = setting(t, map[string]string{"MM_RX_MAX_CHUNK_SIZE": "100k", "MM_FIFO_SIZE": "64"})
		a, b := f.Pair(t)
		if n := len(b.Iface.(*iface).pool.chunks); n != 6 {
			t.Errorf("%d chunks", n)
		}
		talks(t, a, b)
		ep := a.Connect(t, b)
		n := count(t, b, 4)
		for range 200 {
			ucttest.Accept(t, func() error {
				_, err := ep.AMBcopy(4, &ucttest.Packer{Data: make([]byte, 8256)}, 0, nil)
				return err
			}, a, b)
		}
		ucttest.Until(t, "all messages", func() bool { return *n == 200 }, a, b)
		if n := len(ep.(*endpoint).segs); n != 6 {
			t.Errorf("%d segments attached", n)
		}
	})
}

// TestNoDescriptors exhausts the descriptors at each step of opening an interface: the error says
// so, and nothing is left behind.
func TestNoDescriptors(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a := f.Open(t)
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		params := uct.IfaceParams{Transport: f.Component.Name(), Device: deviceName}
		refused := 0
		const tries = 20
		for spare := range tries {
			// Limit the descriptors so that as many are left as spare says.
			fd, err := unix.Dup(0)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
			low := unix.Rlimit{Cur: uint64(fd + spare), Max: limit.Max}
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
				t.Fatal(err)
			}
			i, openErr := a.Domain.OpenIface(a.Worker, params, nil)
			err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
			if err != nil {
				t.Fatal(err)
			}
			if openErr == nil {
				if err := i.Close(); err != nil {
					t.Error(err)
				}
				break
			}
			refused++
			ucttest.WantStatus(t, "opening", openErr, ucs.ErrNoMemory)
			if !contains(openErr.Error(), "ulimit -n") {
				t.Errorf("%q does not say what helps", openErr)
			}
		}
		if least := map[string]int{posixName: 3, sysvName: 1}[f.Component.Name()]; refused < least || refused == tries {
			t.Errorf("refused %d times, want at least %d and not always", refused, least)
		}
	})
}

// TestHugePages asks for huge pages: the memory is in them, or the error says what is missing.
func TestHugePages(t *testing.T) {
	md, err := component{sysvName}.OpenMD(sysvName, setting(t, map[string]string{"SYSV_HUGETLB_MODE": "y"}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := md.Alloc(uct.AllocParams{Length: 1, Nonblock: true})
	if err != nil {
		ucttest.WantStatus(t, "allocating", err, ucs.ErrNoMemory)
		if !contains(err.Error(), "vm.nr_hugepages") {
			t.Errorf("%q does not say what helps", err)
		}
	} else {
		if n := len(m.Bytes()); n != hugePageSize() {
			t.Errorf("%d bytes", n)
		}
		if err := md.Deregister(m); err != nil {
			t.Error(err)
		}
	}
	if err := md.Close(); err != nil {
		t.Error(err)
	}
}
