//go:build linux

package cma

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// files makes a directory with these files.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range content {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const scopeFile = "proc/sys/kernel/yama/ptrace_scope"

func TestUsable(t *testing.T) {
	ok := func() error { return nil }
	denied := func() error { return unix.EPERM }
	for _, tc := range []struct {
		name     string
		scope    string // empty: no Yama
		test     func() error
		cap      bool
		allow    func() error
		obstacle string // empty: usable
		asked    bool   // peers were allowed by prctl
	}{
		{name: "no yama", test: ok, allow: ok},
		{name: "scope 0", scope: "0\n", test: ok, allow: ok},
		{name: "scope 1", scope: "1\n", test: ok, allow: ok, asked: true},
		{name: "scope 1 without prctl", scope: "1\n", test: ok, allow: denied, asked: true, obstacle: "set kernel.yama.ptrace_scope to 0"},
		{name: "scope 2", scope: "2\n", test: ok, allow: ok, obstacle: "CAP_SYS_PTRACE"},
		{name: "scope 2 with capability", scope: "2\n", test: ok, allow: ok, cap: true},
		{name: "scope 3", scope: "3\n", test: ok, allow: ok, cap: true, obstacle: "ptrace_scope is 3"},
		{name: "unknown scope", scope: "x\n", test: ok, allow: ok, cap: true, obstacle: "forbids"},
		{name: "self test", test: func() error { return errors.Join(unix.ENOSYS, ucs.ErrUnsupported) }, allow: ok, obstacle: "not implemented"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			content := map[string]string{}
			if tc.scope != "" {
				content[scopeFile] = tc.scope
			}
			asked := false
			p := probe{
				root:     files(t, content),
				selfTest: tc.test,
				hasCap:   func() bool { return tc.cap },
				allow:    func() error { asked = true; return tc.allow() },
			}
			err := p.usable()
			switch {
			case tc.obstacle == "":
				if err != nil {
					t.Error(err)
				}
			case !errors.Is(err, ucs.ErrUnsupported) || !strings.Contains(err.Error(), tc.obstacle):
				t.Errorf("got %v, want %q", err, tc.obstacle)
			}
			if asked != tc.asked {
				t.Errorf("peers were allowed: %v, want %v", asked, tc.asked)
			}
		})
	}
}

// TestAllowAll makes the system call. A kernel without Yama refuses it.
func TestAllowAll(t *testing.T) {
	if err := allowAll(); err != nil && err != unix.EINVAL {
		t.Errorf("prctl: %v", err)
	}
}

func TestDenialTexts(t *testing.T) {
	own := strconv.Itoa(os.Getuid())
	for _, tc := range []struct {
		name, scope, status, want string
	}{
		{"other user", "0", "Name:\tx\nUid:\t54321\t0\t0\t0\n", "belongs to user 54321"},
		{"scope 1", "1", "Uid:\t" + own + "\t0\t0\t0\n", "PR_SET_PTRACER"},
		{"scope 2", "2", "Uid:\t" + own + "\t0\n", "CAP_SYS_PTRACE"},
		{"scope 3", "3", "Uid:\n", "restarted"},
		{"other reasons", "0", "Uid:\tx\n", "dumpable"},
		{"no status", "", "", "dumpable"},
	} {
		content := map[string]string{}
		if tc.status != "" {
			content["proc/77/status"] = tc.status
		}
		if tc.scope != "" {
			content[scopeFile] = tc.scope
		}
		p := probe{root: files(t, content)}
		if got := p.denial(77); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestOtherUser: a privileged process does not access processes of other users unless
// UCX_CMA_OTHER_USERS permits it.
func TestOtherUser(t *testing.T) {
	needtest.Capability(t, "CAP_SYS_PTRACE", "to access processes of others")
	p := newProcess(t, "nobody", 0)
	reach := uct.ReachableParams{DeviceAddr: p.dev, IfaceAddr: p.addr}
	h := open(t)
	err := h.Iface.Reachable(reach)
	if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), "user 65534") || !strings.Contains(err.Error(), "UCX_CMA_OTHER_USERS") {
		t.Errorf("got %v", err)
	}
	_, err = h.Iface.NewEndpoint(uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
	ucttest.WantStatus(t, "endpoint", err, ucs.ErrUnreachable)

	h = open(t, "OTHER_USERS=y")
	if err := h.Iface.Reachable(reach); err != nil {
		t.Fatal(err)
	}
	if err := p.connect(t, h).PutZcopy(iovOf([]byte("bytes")), p.mem, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestAllowedUser: UCX_SHM_ALLOW also restricts cma, even with UCX_CMA_OTHER_USERS.
func TestAllowedUser(t *testing.T) {
	needtest.Capability(t, "CAP_SYS_PTRACE", "to access processes of others")
	needCMA(t)
	p := newProcess(t, "nobody", 0)
	for allow, ok := range map[string]bool{"all": true, "self": false, "self,65534": true} {
		cfg := settingsOf(t, "OTHER_USERS=y")
		if err := cfg.Modify("SHM_ALLOW", allow); err != nil {
			t.Fatal(err)
		}
		h := fixture(cfg).Open(t)
		err := h.Iface.Reachable(uct.ReachableParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
		if ok != (err == nil) || err != nil && !(errors.Is(err, ucs.ErrUnreachable) && strings.Contains(err.Error(), "UCX_SHM_ALLOW=self")) {
			t.Errorf("UCX_SHM_ALLOW=%s: %v", allow, err)
		}
	}
	cfg := settingsOf(t, "OTHER_USERS=y")
	if err := cfg.Modify("SHM_ALLOW", "65534"); err != nil {
		t.Fatal(err)
	}
	_, err := component{}.OpenMD(name, cfg)
	ucttest.WantStatus(t, "a domain for others alone", err, ucs.ErrUnsupported)
}

func TestSameUser(t *testing.T) {
	own := strconv.Itoa(os.Geteuid())
	for status, want := range map[string]string{
		"Uid:\t54321\t" + own + "\t1\t1\n": "",
		"Uid:\t" + own + "\t54321\t1\t1\n": "user 54321",
		"Uid:\t" + own + "\n":              "cannot be determined",
		"Uid:\tx\n":                        "cannot be determined",
		"":                                 "cannot be determined",
	} {
		p := probe{root: files(t, map[string]string{"proc/77/status": status})}
		err := p.sameUser(77)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", status, err)
			}
		} else if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", status, err, want)
		}
	}
}

// TestDenied checks the error when the kernel refuses access to a process, asked by a thread
// without capabilities.
func TestDenied(t *testing.T) {
	needCMA(t)
	target := newProcess(t, "undumpable", 0)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err = unix.Capset(&hdr, &none[0]); err == nil {
			err = machine.tryPeer(target.cmd.Process.Pid)
		}
	}()
	<-done
	if !errors.Is(err, ucs.ErrUnreachable) || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_SYS_PTRACE") {
		t.Errorf("got %v", err)
	}
}

func TestIsA64FX(t *testing.T) {
	const a64fx = "processor\t: 0\nCPU implementer\t: 0x46\nCPU architecture: 8\nCPU part\t: 0x001\n"
	if !isA64FX(a64fx) {
		t.Error("not recognised")
	}
	for _, other := range []string{"", strings.Replace(a64fx, "0x46", "0x41", 1), strings.Replace(a64fx, "0x001", "0x002", 1)} {
		if isA64FX(other) {
			t.Errorf("%q is taken for an A64FX", other)
		}
	}
}

func TestOpenRefused(t *testing.T) {
	was := machine
	defer func() { machine = was }()
	machine.selfTest = func() error { return errors.Join(unix.EPERM, ucs.ErrUnsupported) }
	if _, err := (component{}).OpenMD(name, nil); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if list, err := (component{}).MemoryDomains(nil); err != nil || len(list) != 1 {
		t.Errorf("domains %v, %v", list, err)
	}
}
