//go:build linux

package verbs_test

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestHalfMemory registers half of the machine's memory as one region, before any page of it is
// resident. A peer writes and reads at its ends and in between.
func TestHalfMemory(t *testing.T) {
	deviceRig(t)
	if os.Getenv("VM_NET") == "" {
		t.Skip("half of the memory of one's own machine may be too much; make test-rxe does it in a VM")
	}
	r := deviceRig(t)
	if os.Getenv("VM_NET") == "veth" {
		r = ours(t)
	}
	var info unix.Sysinfo_t
	check(t, unix.Sysinfo(&info))
	n := int(uint64(info.Totalram)*uint64(info.Unit)/2) &^ (arena.PageSize - 1)
	was := field(t, "/proc/self/status", "VmRSS:")
	mem := must(arena.Map(n, arena.Options{}))(t)
	if now := field(t, "/proc/self/status", "VmRSS:"); now-was > n>>10/4 {
		t.Errorf("%d KiB are there before they are used", now-was)
	}
	a, b := r.pair(t, verbs.RC)
	mr := must(b.pd.RegMR(mem, fullAccess))(t)
	if pinned := field(t, "/proc/self/status", "VmPin:"); pinned < n>>10 {
		t.Errorf("%d KiB pinned of %d", pinned, n>>10)
	}
	t.Logf("%d MiB registered", n>>20)
	const size = 9000 // crosses pages
	var places []int
	for i := range 40 {
		places = append(places, (n-size)/40*i/8*8)
	}
	places = append(places, n-size, n-2*size)
	for i, off := range places {
		fill(a.buf[:size], byte(i))
		wr := verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, size), RemoteAddr: mr.Addr() + uint64(off), RKey: mr.RKey()}
		a.send(t, wr)
		a.done(t, 0, verbs.WCRDMAWrite)
		if !bytes.Equal(mem[off:off+size], a.buf[:size]) {
			t.Errorf("at %d: wrong bytes written", off)
		}
	}
	for i, off := range places { // again, after all were written
		wr := verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGList: a.at(size, size), RemoteAddr: mr.Addr() + uint64(off), RKey: mr.RKey()}
		a.send(t, wr)
		a.done(t, 0, verbs.WCRDMARead)
		fill(a.buf[:size], byte(i))
		if !bytes.Equal(a.buf[size:2*size], a.buf[:size]) {
			t.Errorf("at %d: wrong bytes read", off)
		}
	}
	for _, off := range places[:40] {
		if mem[off+size] != 0 {
			t.Errorf("at %d: a byte behind it was written", off)
		}
	}
	check(t, mr.Close())
	if pinned := field(t, "/proc/self/status", "VmPin:"); pinned >= n>>10 {
		t.Errorf("%d KiB still pinned", pinned)
	}
	check(t, arena.Unmap(mem))
}
