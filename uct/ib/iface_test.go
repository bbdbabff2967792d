//go:build linux

package ib

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// hooked is a device whose calls a test can watch, both as a file and as a Source.
type hooked struct {
	uverbs.File
	k       *verbstest.Kernel
	calling func(name string)
}

func (h *hooked) Ioctl(f *uverbs.Frame) syscall.Errno {
	if r, errno := uverbs.Parse(f); errno == 0 && h.calling != nil {
		h.calling(r.Spec.Name)
	}
	return h.File.Ioctl(f)
}

func (h *hooked) Devices() ([]verbs.Device, error) { return []verbs.Device{{Name: h.k.Name()}}, nil }

func (h *hooked) Open(*verbs.Device) (*verbs.Context, error) {
	h.File = h.k.Open()
	return verbs.NewContext(h, 0)
}

func (h *hooked) Read(*verbs.Device) {}

const testSection = "interface without a transport"

func init() {
	config.Register(config.Section{Name: testSection, Prefix: "TEST_", Title: testSection, New: func() any { return new(Settings) }})
}

// quiet is a transport that ignores all events.
type quiet struct{}

func (quiet) AsyncEvent(verbs.AsyncEvent) {}

// TestOpenBeforeNews checks that no events are read for an interface before it is complete, and
// that an interface that fails to open leaves nothing behind.
func TestOpenBeforeNews(t *testing.T) {
	h := &hooked{k: verbstest.New()}
	d, err := openDomain(&component{"ib", h}, &verbs.Device{Name: h.k.Name()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil || h.k.Objects() != 0 {
			t.Errorf("%v, %d objects are left", err, h.k.Objects())
		}
	}()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var s Settings
	var cfg config.Set
	if err := cfg.Load(testSection, &s); err != nil {
		t.Fatal(err)
	}
	init := IfaceInit{User: quiet{}, Settings: &s, SendCQE: 16, RecvCQE: 16, SRQ: &verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1}}
	s.Common.Failure = log.LevelError // UCX_IB_FAILURE
	made := 0
	h.calling = func(name string) {
		switch name {
		case "CQ.CREATE", "SRQ.CREATE":
			if made++; d.events.Boxes() != 0 {
				t.Errorf("news are read before %s", name)
			}
		}
	}
	var i Iface
	if err := i.Open(d.ports[0], w, init); err != nil {
		t.Fatal(err)
	}
	if made != 3 || i.SRQ == nil || d.events.Boxes() != 1 {
		t.Errorf("%d queues, SRQ %v, %d who are told", made, i.SRQ, d.events.Boxes())
	}
	if i.Reporter.Level != log.LevelError {
		t.Errorf("failures are logged at level %v", i.Reporter.Level)
	}
	if err := i.Close(); err != nil || d.events.Boxes() != 0 {
		t.Errorf("%v, %d who are told", err, d.events.Boxes())
	}
	h.k.FailCall("SRQ.CREATE", 0, syscall.ENOMEM)
	var second Iface
	if err := second.Open(d.ports[0], w, init); !errors.Is(err, ucs.ErrNoMemory) || d.events.Boxes() != 0 {
		t.Errorf("%v, %d who are told", err, d.events.Boxes())
	}
}
