//go:build !linux

package ucp_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestAbsent checks that a context lists the transports that this system does not have, and why,
// and that a context with such transports alone fails.
func TestAbsent(t *testing.T) {
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	var b strings.Builder
	if err := ctx.WriteInfo(&b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tcp", "posix", "sysv", "cma"} {
		if want := "not used    :  " + name + ": not on " + runtime.GOOS; !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Modify("TLS", "tcp"); err != nil {
		t.Fatal(err)
	}
	_, err = ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, cfg)
	if want := "tcp: not on " + runtime.GOOS; !errors.Is(err, ucs.ErrNoDevice) || !strings.Contains(err.Error(), want) {
		t.Errorf("a context with tcp alone: %v, want %q", err, want)
	}
}

// TestNoDescriptor checks that a worker has no event descriptor on this system.
func TestNoDescriptor(t *testing.T) {
	inModes(t, func(t *testing.T, mode ucs.ThreadMode) {
		ctx, w, _ := alone(t, mode)
		if fd, err := w.EventFD(); fd != -1 || !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("EventFD = %d, %v", fd, err)
		}
		if w, err := ctx.NewWorker(ucp.WorkerParams{Epoll: &ucp.EpollTarget{FD: 3}}); !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("a worker in a set of the application: %v, %v", w, err)
		}
	})
}
