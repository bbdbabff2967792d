package ucp_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// setting is a variable without its prefix UCX_.
type setting struct{ name, value string }

// newContext opens a context on the self transport, closed with the test.
func newContext(t *testing.T, p ucp.ContextParams, settings ...setting) *ucp.Context {
	t.Helper()
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append([]setting{{"TLS", "self"}}, settings...) {
		if err := cfg.Modify(s.name, s.value); err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := ucp.NewContext(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

func TestContextParams(t *testing.T) {
	for what, p := range map[string]ucp.ContextParams{
		"unknown feature":    {Features: 1 << 40},
		"negative endpoints": {EstimatedEndpoints: -1},
		"negative processes": {EstimatedPPN: -1},
	} {
		if ctx, err := ucp.NewContext(p, nil); ctx != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, ctx, err)
		}
	}
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag, EstimatedEndpoints: 1000, EstimatedPPN: 64, Name: "mine"})
	attr := ctx.Attr()
	if attr.Name != "mine" || attr.ThreadMode != ucs.ThreadModeSingle || attr.RequestSize <= 0 ||
		len(attr.MemoryTypes) != 1 || attr.MemoryTypes[0] != ucs.MemoryHost {
		t.Errorf("query: %+v", attr)
	}
	shared := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag, MTWorkersShared: true})
	if got := shared.Attr().ThreadMode; got != ucs.ThreadModeMulti {
		t.Errorf("workers on different goroutines: thread mode %v", got)
	}
}

// TestNoFeatures: a context without features is accepted, and each family of
// operations is refused.
func TestNoFeatures(t *testing.T) {
	ucttest.NoLeaks(t)
	logtest.Watch(t).Expect("context without features")
	ctx := newContext(t, ucp.ContextParams{})
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func() error{
		"send":      func() error { _, err := ep.TagSend(1, nil, nil); return err },
		"sync send": func() error { _, err := ep.TagSendSync(1, nil, nil); return err },
		"receive":   func() error { _, err := w.TagRecv(1, 0, nil, nil); return err },
		"arm":       w.Arm,
	} {
		if err := call(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, ok := w.TagPeek(0, 0); ok {
		t.Error("probe found a message")
	}
}

// TestMissingFeatures: a feature that is not implemented is refused, and so is an
// unknown one.
func TestMissingFeatures(t *testing.T) {
	ucttest.NoLeaks(t)
	for f, want := range map[ucp.Features]error{
		ucp.FeatureExportedMemh:                                   ucs.ErrUnsupported,
		ucp.FeatureTag | ucp.FeatureRMA | ucp.FeatureExportedMemh: ucs.ErrUnsupported,
		1 << 20:                ucs.ErrInvalidParam,
		ucp.FeatureTag | 1<<63: ucs.ErrInvalidParam,
	} {
		ctx, err := ucp.NewContext(ucp.ContextParams{Features: f}, nil)
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", f, err)
		}
		if ctx != nil {
			t.Errorf("%v: a context", f)
			ctx.Close()
		}
	}
}

// TestNames: names are cut at 31 bytes, and names that are not given are generated
// and unique.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 100)
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag, Name: long})
	if n := ctx.Attr().Name; n != long[:31] {
		t.Errorf("context %q", n)
	}
	other, third := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag}), newContext(t, ucp.ContextParams{Features: ucp.FeatureTag})
	if a, b := other.Attr().Name, third.Attr().Name; a == b || a == "" || len(a) > 31 {
		t.Errorf("contexts %q and %q", a, b)
	}
	names := make(map[string]bool)
	for _, name := range []string{long, "short", "", ""} {
		w, err := ctx.NewWorker(ucp.WorkerParams{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		got := w.Attr().Name
		if name != "" && got != name[:min(len(name), 31)] || names[got] {
			t.Errorf("worker %q is called %q", name, got)
		}
		names[got] = true
	}
}

func TestThreadModes(t *testing.T) {
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag})
	for mode, want := range map[ucs.ThreadMode]error{
		ucs.ThreadModeSingle:     nil,
		ucs.ThreadModeSerialized: nil,
		ucs.ThreadModeMulti:      nil,
		ucs.ThreadModeMulti + 1:  ucs.ErrInvalidParam,
	} {
		w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode})
		if !errors.Is(err, want) || (err == nil) != (w != nil) {
			t.Errorf("mode %d: %v, %v, want %v", mode, w, err, want)
		}
		if w != nil {
			if got := w.Attr().ThreadMode; got != mode {
				t.Errorf("mode %v is reported as %v", mode, got)
			}
			if mode > ucp.Library().MaxThreadMode {
				t.Errorf("mode %v is more than the library says it has", mode)
			}
			w.Close()
		}
	}
}

// TestWorkersDiffer: the ids of workers are unique.
func TestWorkersDiffer(t *testing.T) {
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag})
	seen := make(map[uint64]bool)
	for range 20 {
		w, err := ctx.NewWorker(ucp.WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if id := w.Attr().UID; id == 0 || seen[id] {
			t.Errorf("id %#x is zero or taken", id)
		}
		seen[w.Attr().UID] = true
	}
}

// TestConfigIsolated: changes of a Config after a context was made do not reach
// the context.
func TestConfigIsolated(t *testing.T) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Modify("TLS", "self")
	cfg.Modify("SELF_SEG_SIZE", "2k") // a setting of a transport, set through UCP
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	explain := func() string {
		w, err := ctx.NewWorker(ucp.WorkerParams{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		addr, _ := w.Address(0)
		ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr, Name: "same"})
		if err != nil {
			t.Fatal(err)
		}
		text := ep.Explain().String()
		_, text, _ = strings.Cut(text, "\n") // without the worker's id
		return text
	}
	before := explain()
	if !strings.Contains(before, "2040") && !strings.Contains(before, "2K") && !strings.Contains(before, "2047") {
		t.Errorf("the segment size does not show:\n%s", before)
	}
	if !strings.Contains(before, "lane[0]:") {
		t.Errorf("an endpoint to its own worker shows no lane:\n%s", before)
	}
	for _, s := range []setting{{"SELF_SEG_SIZE", "64k"}, {"RNDV_THRESH", "0"}, {"TLS", "tcp"}, {"ZCOPY_THRESH", "1"}} {
		if err := cfg.Modify(s.name, s.value); err != nil {
			t.Fatal(err)
		}
	}
	if after := explain(); after != before {
		t.Errorf("the context has changed from\n%s\nto\n%s", before, after)
	}
}

func TestConfigModify(t *testing.T) {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []setting{
		{"RNDV_THRESH", "lots"}, {"ZCOPY_THRESH", "-3"}, {"RNDV_SCHEME", "teleport"},
		{"MAX_UNEXP_EPS", "x"}, {"TCP_NODELAY", "perhaps"}, {"", "1"},
	} {
		if err := cfg.Modify(s.name, s.value); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v: %v", s, err)
		}
	}
	if err := cfg.Modify("NO_SUCH_SETTING", "1"); err != nil {
		t.Errorf("an unknown name: %v", err)
	}
	if err := cfg.Modify("RNDV_THRESH", "intra:1m,inter:2m"); err != nil {
		t.Error(err)
	}
	var text strings.Builder
	if err := cfg.WriteInfo(&text, "settings", config.PrintConfig); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "UCX_RNDV_THRESH=intra:1M,inter:2M") {
		t.Errorf("the change is not printed:\n%s", text.String())
	}
}

// TestConfigFile: the settings in a file apply. A missing file is no error, but a
// bad value in a file is one.
func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := ucp.ReadConfig("", filepath.Join(dir, "missing")); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	cfg, err := ucp.ReadConfig("APP", write("good", "UCX_SELF_SEG_SIZE=3k\nAPP_UCX_MAX_UNEXP_EPS=77\nUCX_MAX_UNEXP_EPS=5\n"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := cfg.WriteInfo(&text, "settings", config.PrintConfig); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SELF_SEG_SIZE=3K", "MAX_UNEXP_EPS=77"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if _, err := ucp.ReadConfig("", write("bad", "UCX_RNDV_THRESH=lots\n")); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a bad value: %v", err)
	}
}

// TestNoTransport: the error of a context without a usable transport says what excluded each.
func TestNoTransport(t *testing.T) {
	ucttest.NoLeaks(t)
	logtest.Watch(t).Allow("") // names that match nothing are reported
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Modify("TLS", "tcp")
	cfg.Modify("NET_DEVICES", "nosuchdevice0")
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, cfg)
	if ctx != nil || !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("%v, %v", ctx, err)
	}
	if want := "tcp/lo: not in the list of devices"; err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}

// TestUnaskedRefused: a transport that cannot be used is reported only if the settings name it.
func TestUnaskedRefused(t *testing.T) {
	for tls, want := range map[string]bool{"tcp": false, "^posix": false, "posix,tcp": true, "shm,tcp": true} {
		t.Run(tls, func(t *testing.T) {
			l := logtest.Watch(t)
			if want {
				l.Expect("transport not usable")
			}
			// Shared memory files have no huge pages.
			newContext(t, ucp.ContextParams{Features: ucp.FeatureTag}, setting{"TLS", tls}, setting{"POSIX_HUGETLB_MODE", "y"})
		})
	}
}

// TestInterfaceNotOpened: a worker does without an interface that cannot be opened,
// and reports that in errors and listings where the interface is missing.
func TestInterfaceNotOpened(t *testing.T) {
	ucttest.NoLeaks(t)
	logtest.Watch(t).Allow("interface not usable")
	used, err := net.Listen("tcp4", ":0") // at all addresses
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	port := strconv.Itoa(used.Addr().(*net.TCPAddr).Port)
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag}, setting{"TLS", "self,tcp"}, setting{"TCP_PORT_RANGE", port})
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const reason = "tcp/lo: tcp: "
	addr, _ := w.Address(0)
	// The self transport has no failure handling.
	_, err = w.NewEndpoint(ucp.EndpointParams{Address: addr, ErrMode: ucp.ErrModePeer})
	if !errors.Is(err, ucs.ErrUnreachable) || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v, want %v and %q", err, ucs.ErrUnreachable, reason)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	var info strings.Builder
	if err := w.WriteInfo(&info); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"worker": info.String(), "endpoint": ep.Explain().String()} {
		if !strings.Contains(text, "not used: "+reason) {
			t.Errorf("the %s does not say %q:\n%s", what, reason, text)
		}
	}
}

func TestContextWriteInfo(t *testing.T) {
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag})
	var text strings.Builder
	if err := ctx.WriteInfo(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"component 0  :  self\n#     component 1  :  tcp\n", "md 0  :  component ", "dev 0  flags -- self/memory\n", "not used    :  tcp/"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	broken := errors.New("disk full")
	if err := ctx.WriteInfo(failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("writing to a full disk: %v", err)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

func TestFeatureNames(t *testing.T) {
	for f, want := range map[ucp.Features]string{
		0:              "none",
		ucp.FeatureTag: "tag",
		ucp.FeatureTag | ucp.FeatureWakeup | ucp.FeatureExportedMemh: "tag|wakeup|exported_memh",
	} {
		if f.String() != want {
			t.Errorf("%#x is %q, want %q", uint64(f), f, want)
		}
	}
}

// TestVersion: the release that the package claims to follow is the newest that the README names
// as a peer, and Version and VersionString agree.
func TestVersion(t *testing.T) {
	major, minor, release := ucp.Version()
	var a, b, c int
	if n, err := fmt.Sscanf(ucp.VersionString(), "%d.%d.%d", &a, &b, &c); n != 3 || a != major || b != minor || c != release {
		t.Errorf("%q is not %d.%d.%d: %v", ucp.VersionString(), major, minor, release, err)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if claim := fmt.Sprintf("1.13 to %d.%d", major, minor); !strings.Contains(string(readme), claim) {
		t.Errorf("the README does not say that processes of C UCX of %s are peers", claim)
	}
}
