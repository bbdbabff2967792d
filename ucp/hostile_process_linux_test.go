package ucp

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// holder starts another process that has the file open. It returns the process and its descriptor.
func (f *file) holder() (pid, fd int) {
	f.Helper()
	cmd := exec.Command("cat")
	file, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(f.fd), os.O_RDWR, 0)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	cmd.ExtraFiles = []*os.File{file}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			f.Error(err)
		}
	})
	return cmd.Process.Pid, 3
}

// TestKeyOfAnotherProcess: memory of a third process is neither mapped for a message
// that offers it, nor accessed with a remote key.
func TestKeyOfAnotherProcess(t *testing.T) {
	const n = 100_000
	v := newMappedTarget(t)
	f := newFile(t, 1<<20)
	good := packed(t, 0, f.key())
	pid, fd := f.holder()
	other := packed(t, 0, posixKey(pid, fd, fileBase, 1<<20))

	refused := func(what string, key []byte) {
		t.Helper()
		req, _ := v.offered(n, fileBase, key)
		if req.fetch.attached != nil || !req.is(kindAsk) {
			t.Errorf("%s: memory that is offered is mapped", what)
		}
		req.finish(ucs.ErrCanceled)
		req.Free()
		k, err := v.ep.UnpackRkey(key)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		if _, err := k.Ptr(fileBase, 1); err == nil || k.putShort != nil {
			t.Errorf("%s: the key opens memory: %v", what, k)
		}
	}
	refused("third process", other)

	req, buf := v.offered(n, fileBase, good)
	v.until(req)
	ucttest.SameBytes(t, "message", buf, make([]byte, n))
	req.Free()
	k, err := v.ep.UnpackRkey(good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Ptr(fileBase, 1); err != nil {
		t.Error(err)
	}
	k.Close()

	// Memory that is mapped for one peer is not used for another peer.
	was := v.ep.process
	v.ep.process += 1 << 40
	refused("another peer", good)
	v.ep.process = 0
	refused("nobody knows whom", good)
	v.ep.process = was
}

// TestAddressOfTwoProcesses: if an address also names another process than its own, no
// lane leads to that process, although the kernel would permit access to its memory.
func TestAddressOfTwoProcesses(t *testing.T) {
	ucttest.NoLeaks(t)
	v := newTarget(t, "TLS", "posix,cma")
	if !slices.ContainsFunc(v.ifaces, func(i *iface) bool { return i.attr.Resource.Transport == "cma" }) {
		t.Skip("missing: cma")
	}
	lanes := func(edit func(cma []byte)) (*Endpoint, string) {
		t.Helper()
		p, _, err := proto.ParseAddress(v.own.address, proto.FormWorker)
		if err != nil {
			t.Fatal(err)
		}
		a := p.Clone()
		for d := range a.Devices {
			for i := range a.Devices[d].Ifaces {
				if f := &a.Devices[d].Ifaces[i]; slices.ContainsFunc(v.ifaces, func(i *iface) bool {
					return i.id == f.Transport && i.attr.Resource.Transport == "cma"
				}) {
					edit(f.Addr)
				}
			}
		}
		ep, err := v.wireups.newEndpoint(a, ErrModeNone, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.w.ends.destroy(ep, ucs.ErrCanceled) })
		var names []string
		for i := range ep.lanes {
			names = append(names, ep.w.selection.laneName(ep, i))
		}
		return ep, strings.Join(names, " ")
	}
	if _, got := lanes(func([]byte) {}); !strings.Contains(got, "cma") {
		t.Fatalf("lanes %s", got)
	}
	ep, got := lanes(func(b []byte) { // bit 31 says that there is a namespace
		pid := binary.LittleEndian.Uint32(b)
		binary.LittleEndian.PutUint32(b, pid&(1<<31)|uint32(os.Getppid()))
	})
	if strings.Contains(got, "cma") || !strings.Contains(got, "posix") {
		t.Errorf("lanes %s", got)
	}
	for _, err := range ep.refused() {
		ucttest.WantStatus(t, "the lane", err, ucs.ErrUnreachable)
	}
	if len(ep.refused()) != 1 {
		t.Errorf("refused: %v", ep.refused())
	}
}
