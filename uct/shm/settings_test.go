//go:build linux

package shm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestRingLength(t *testing.T) {
	for _, c := range []struct {
		release  uct.PeerRelease
		settings map[string]string
		want     int
	}{
		{uct.PeerReleaseAny, nil, 256},
		{uct.PeerRelease122, nil, 256},
		{uct.PeerRelease113, nil, 64},
		{uct.PeerRelease113, map[string]string{"POSIX_FIFO_SIZE": "256"}, 256},
		{uct.PeerRelease113, map[string]string{"MM_FIFO_SIZE": "128"}, 128},
	} {
		o, err := loadOptions(setting(t, c.settings), posixName, uct.IfaceParams{PeerRelease: c.release})
		if err != nil || o.ring != c.want {
			t.Errorf("release %d, %v: %d elements, %v; want %d", c.release, c.settings, o.ring, err, c.want)
		}
		if err == nil && o.release != uint64(c.want/2-1) {
			t.Errorf("tail is told every %d of %d", o.release+1, c.want)
		}
	}
	if o, err := loadOptions(nil, sysvName, uct.IfaceParams{PeerRelease: uct.PeerRelease113}); err != nil || o.ring != 64 {
		t.Errorf("without settings: %d, %v", o.ring, err)
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"FIFO_SIZE", "0"}, {"FIFO_SIZE", "1"}, {"FIFO_SIZE", "100"}, {"FIFO_SIZE", "2097152"},
		{"FIFO_ELEM_SIZE", "56"}, {"FIFO_ELEM_SIZE", "100"}, {"FIFO_ELEM_SIZE", "32768"},
		{"SEG_SIZE", "7"}, {"SEG_SIZE", "1g"}, {"SEG_SIZE", "inf"}, {"SEG_SIZE", "257m"},
		{"FIFO_RELEASE_FACTOR", "1"}, {"FIFO_RELEASE_FACTOR", "-1"},
		{"FIFO_HUGETLB", "y"}, {"RX_MAX_BUFS", "100"},
		{"SEND_OVERHEAD", "am_zcopy:1us"}, {"RECV_OVERHEAD", "am_short:inf"},
	} {
		cfg := new(config.Set)
		err := cfg.Modify("SYSV_"+c.name, c.value)
		if err == nil {
			_, err = loadOptions(cfg, sysvName, uct.IfaceParams{})
		}
		if !errors.Is(err, ucs.ErrInvalidParam) || !contains(err.Error(), "UCX_SYSV_"+c.name) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	for name, value := range map[string]string{"POSIX_HUGETLB_MODE": "y", "POSIX_DIR": "shm"} {
		cfg := setting(t, map[string]string{name: value, "POSIX_USE_PROC_LINK": "n"})
		if _, err := (component{posixName}).OpenMD(posixName, cfg); err == nil || !contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// TestAttributes compares with what ucx_info of C UCX 1.22 shows.
func TestAttributes(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		h := f.Open(t)
		a := h.Iface.Attr()
		if a.Flags != 0x11804000023b || a.Events != 0xb || h.Domain.Attr().Flags != 0x69 {
			t.Errorf("flags %#x, events %#x, domain %#x", uint64(a.Flags), uint32(a.Events), uint64(h.Domain.Attr().Flags))
		}
		if a.AM.MaxShort != 100 || a.AM.MaxBcopy != 8256 || a.Put.MaxShort != min(1<<32-1, math.MaxInt) {
			t.Errorf("limits %+v, %+v", a.AM, a.Put)
		}
		want := uct.Perf{Overhead: 10e-9, SendOverhead: 10e-9, RecvOverhead: 10e-9, BandwidthDedicated: 15360 << 20, Latency: uct.Linear{C: 80e-9}}
		if a.Perf != want {
			t.Errorf("performance %+v", a.Perf)
		}
		if n := map[string]int{posixName: 24, sysvName: 12}[f.Component.Name()]; h.Domain.Attr().RkeyPackedSize != n && len(h.Iface.Address()) == 8 {
			t.Errorf("keys of %d bytes", h.Domain.Attr().RkeyPackedSize)
		}
	})
	f := ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{
		"MM_ERROR_HANDLING": "y", "SM_BW": "1GBs", "POSIX_SEND_OVERHEAD": "am_short:20ns,am_bcopy:30ns",
	})}
	h := f.Open(t)
	a := h.Iface.Attr()
	if !a.Flags.Has(uct.IfaceErrHandlePeerFail) || a.Perf.BandwidthDedicated != 1<<30 || a.Perf.SendOverhead != 20e-9 || math.Abs(a.Perf.CopyOverhead-10e-9) > 1e-15 {
		t.Errorf("set: flags %#x, %+v", uint64(a.Flags), a.Perf)
	}
}

// TestReclaim: the files of a killed process are removed by the next process, which leaves those of
// live processes and of other programs.
func TestReclaim(t *testing.T) {
	dir := shmDir(t)
	settings := []string{"POSIX_USE_PROC_LINK=n", "POSIX_DIR=" + dir}
	list := func() (n int) {
		files, _ := filepath.Glob(filepath.Join(dir, "ucx_shm_posix_*"))
		return len(files)
	}
	dead, alive := startPeer(t, posixName, settings...), startPeer(t, posixName, settings...)
	foreign := filepath.Join(dir, "ucx_shm_posix_12345678")
	if err := os.WriteFile(foreign, []byte("C"), 0o600); err != nil {
		t.Fatal(err)
	}
	const each = 3 // ring, buffers, memory
	if n := list(); n != 2*each+1 {
		t.Fatalf("%d files", n)
	}
	var st unix.Stat_t
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		if err := unix.Stat(f, &st); err != nil || st.Mode&0o777 != 0o600 {
			t.Errorf("%s: mode %#o, %v", f, st.Mode, err)
		}
	}
	dead.kill()
	if n := list(); n != 2*each+1 {
		t.Fatalf("%d files after the death of one", n)
	}
	f := ucttest.Fixture{Component: component{posixName}, Config: setting(t, map[string]string{
		"POSIX_USE_PROC_LINK": "n", "POSIX_DIR": dir,
	})}
	h := f.Open(t)
	if n := list(); n != each+1+2 { // ring and buffers of this process
		t.Errorf("%d files after the next one came", n)
	}
	ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: alive.dev, IfaceAddr: alive.addr})
	if err := ep.AMShort(2, 0, nil, 0, nil); err != nil {
		t.Error(err)
	}
	h.Close(t)
	if n := list(); n != each+1 {
		t.Errorf("%d files after that one has gone", n)
	}
	if !fileThere(foreign) {
		t.Error("a file of somebody else was removed")
	}
}

func fileThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestNamespaces checks which peers in other namespaces are reachable, and the error for those that
// are not. Addresses of a process outside the kernel's initial namespaces, as in a container, are
// longer: they name the namespace.
func TestNamespaces(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		h := f.Open(t)
		ownDev, ownAddr := len(h.Iface.DeviceAddress()), len(h.Iface.Address())
		for _, c := range []struct {
			name        string
			flags       uintptr
			dev, addr   int
			unreachable string
		}{
			{"IPC", unix.CLONE_NEWIPC, 16, ownAddr, "IPC namespace"},
			{"PID", unix.CLONE_NEWPID, ownDev, ownAddr, "PID namespace"},
			{"network", unix.CLONE_NEWNET, ownDev, ownAddr, ""}, // messages arrive, wakeups do not
		} {
			t.Run(c.name, func(t *testing.T) {
				p := startPeerIn(t, c.flags, f.Component.Name())
				if c.name == "PID" && f.Component.Name() == posixName {
					c.addr = 16
				}
				if len(p.dev) != c.dev || len(p.addr) != c.addr {
					t.Errorf("addresses of %d and %d bytes, want %d and %d", len(p.dev), len(p.addr), c.dev, c.addr)
				}
				err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
				if c.unreachable == "" {
					if err != nil {
						t.Errorf("reachable: %v", err)
					}
					return
				}
				ucttest.WantStatus(t, "reachable", err, ucs.ErrUnreachable)
				if err != nil && !contains(err.Error(), c.unreachable) {
					t.Errorf("%q does not say %q", err, c.unreachable)
				}
			})
		}
	})
}

// TestEndpointSize bounds what an idle endpoint costs, in the size classes of the runtime.
func TestEndpointSize(t *testing.T) {
	if size := reflect.TypeFor[endpoint]().Size(); size > 448 {
		t.Errorf("an endpoint takes %d bytes", size)
	}
	if size := reflect.TypeFor[attachment]().Size(); size > 448 {
		t.Errorf("a segment of a peer takes %d bytes", size)
	}
}
