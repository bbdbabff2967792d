//go:build linux

package interop

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestBackground: a worker with background progress serves C while its process makes no call of
// UCX: puts and flushes, gets, and synchronous sends, also after its own endpoint was shut down.
func TestBackground(t *testing.T) {
	where, err := serve(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(where.close)
	device, why := machineDevice()
	if device == "" {
		t.Skip(why)
	}
	for _, theirs := range buildC(t) {
		for _, over := range []route{{name: "tcp", tls: "tcp", both: true, devices: device}, posix} {
			for _, ours := range []bool{false, true} { // with an endpoint of its own
				t.Run(fmt.Sprintf("%s/%s/%t", theirs.name, over.name, ours), func(t *testing.T) {
					if err := answersAlone(where, theirs, over, ours); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// answersAlone lets a peer work with a worker of this process that no goroutine waits on.
func answersAlone(where *place, theirs program, over route, shutdown bool) error {
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		return err
	}
	settings := over.env(true)
	if theirs.shortRings() {
		settings = append(settings, "UCX_PEER_RELEASE=1.13")
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(strings.TrimPrefix(s, "UCX_"), "=")
		if err := cfg.Modify(name, value); err != nil {
			return err
		}
	}
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureRMA}, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti, Background: true})
	if err != nil {
		return err
	}
	defer w.Close()
	buf := make([]byte, 1<<16)
	m, err := c.MemMap(ucp.MemMapParams{Buffer: buf})
	if err != nil {
		return err
	}
	defer m.Close()
	key, err := m.PackRkey()
	if err != nil {
		return err
	}
	address, err := w.Address(0)
	if err != nil {
		return err
	}
	p, err := startPeer(where, theirs.path, over.env(false))
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.do("connect", ep, "none", hex.EncodeToString(address)); err != nil {
		return err
	}
	if shutdown {
		to, err := p.address()
		if err != nil {
			return err
		}
		packed, err := hex.DecodeString(to)
		if err != nil {
			return err
		}
		e, err := w.NewEndpoint(ucp.EndpointParams{Address: packed})
		if err != nil {
			return err
		}
		if err := e.Shutdown(context.Background()); err != nil {
			return err
		}
	}
	if err := p.do("unpack", 1, ep, hex.EncodeToString(key)); err != nil {
		return err
	}
	do := func(words ...any) error {
		n := p.request()
		if err := p.do(append([]any{words[0], n}, words[1:]...)...); err != nil {
			return err
		}
		return p.finish(n)
	}
	for k := range 20 {
		if _, err := w.TagRecv(7, ucp.FullMask, make([]byte, 1000), nil); err != nil {
			return err
		}
		at := m.Attr().Address
		for _, step := range [][]any{
			{"put", ep, 1, at, 1 << 10, 5}, {"flush", "worker"}, {"put", ep, 1, at, len(buf), 6}, {"flush", ep},
			{"send", ep, 7, 1000, 9, "contig", "sync"},
		} {
			if err := do(step...); err != nil {
				return fmt.Errorf("round %d, %v: %w", k, step, err)
			}
		}
	}
	if err := do("close", ep, "flush"); err != nil {
		return err
	}
	return p.exit()
}
