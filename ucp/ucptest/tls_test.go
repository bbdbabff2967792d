//go:build linux

package ucptest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// tcpAndTLS returns a transport whose contexts have both tcp and tls.
func tcpAndTLS(more ...setting) transport {
	return transport{
		name:     "tcp and tls",
		tls:      certtest.New().Mutual("peer"),
		settings: append([]setting{{"TLS", "tcp,tls"}, {"NET_DEVICES", "lo"}}, more...),
	}
}

// transportsOf returns the names of the transports that an endpoint uses.
func transportsOf(ep *ucp.Endpoint) []string {
	var names []string
	for _, l := range ep.Attr().Transports {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestTLSLanes checks that tcp is used unless a side requires TLS, for messages of every size.
func TestTLSLanes(t *testing.T) {
	for _, c := range []struct {
		require [2]bool
		want    string
	}{
		{[2]bool{false, false}, "tcp"},
		{[2]bool{true, true}, "tls"},
		{[2]bool{true, false}, "tls"},
		{[2]bool{false, true}, "tls"},
	} {
		r := newRig(t, tcpAndTLS())
		var s [2]*side
		for k := range s {
			s[k] = r.openWith(ucp.ContextParams{Features: features, RequireTLS: c.require[k]}, ucp.WorkerParams{})
		}
		for k := range s {
			ep := s[k].connect(s[1-k])
			for _, n := range []int{8, 5000, 300_000, 3 << 20} {
				r.sendAndTake(ep, s[1-k], 3, message(n))
			}
			if got := strings.Join(transportsOf(ep), " "); got != c.want {
				t.Errorf("required %v: side %d sends over %s, want %s", c.require, k, got, c.want)
			}
		}
	}
}

// TestTLSOnlyHere checks that an endpoint to a peer without TLS is refused if TLS is required, and
// that the error says so.
func TestTLSOnlyHere(t *testing.T) {
	tr := tcpAndTLS()
	r := newRig(t, tr)
	a := r.openWith(ucp.ContextParams{Features: features, RequireTLS: true}, ucp.WorkerParams{})
	r.tls = nil
	r.log.Expect("transport in UCX_TLS is not available")
	b := r.open()
	addr, err := b.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.NewEndpoint(ucp.EndpointParams{Address: addr}); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("connected: %v", err)
	}
}

// TestTLSParams checks that TLS parameters that cannot work are refused when the context is opened.
func TestTLSParams(t *testing.T) {
	good := certtest.New().Mutual("peer")
	bad := good.Clone()
	bad.Certificates = nil
	for name, c := range map[string]struct {
		params ucp.ContextParams
		tls    string
		status ucs.Status
		says   string
	}{
		"no certificate":            {ucp.ContextParams{TLS: bad}, "all", ucs.ErrInvalidParam, "no certificate"},
		"required and not there":    {ucp.ContextParams{RequireTLS: true}, "all", ucs.ErrInvalidParam, ""},
		"named and not there":       {ucp.ContextParams{}, "tls", ucs.ErrNoDevice, "ContextParams.TLS"},
		"required and not in list":  {ucp.ContextParams{TLS: good, RequireTLS: true}, "tcp", ucs.ErrNoDevice, "RequireTLS"},
		"there, and nothing wanted": {ucp.ContextParams{TLS: good}, "xpmem", ucs.ErrNoDevice, "UCX_TLS"},
	} {
		cfg, err := ucp.ReadConfig("", "")
		if err == nil {
			err = cfg.Modify("TLS", c.tls)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, err := ucp.NewContext(c.params, cfg)
		if ctx != nil {
			ctx.Close()
		}
		if ucs.StatusOf(err) != c.status || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTLSStranger checks that with a certificate of another authority nothing arrives, and that the
// endpoint fails.
func TestTLSStranger(t *testing.T) {
	r := newRig(t, byName(t, "tls"))
	r.log.Allow("TLS handshake failed") // logged once a minute
	b := r.open()
	r.tls = certtest.New().Mutual("mallory")
	a := r.open()
	failed := error(nil)
	addr, err := b.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := a.NewEndpoint(ucp.EndpointParams{
		Address: addr, ErrMode: ucp.ErrModePeer,
		OnError: func(_ *ucp.Endpoint, err error, _ any) { failed = err },
	})
	if err != nil {
		t.Fatal(err)
	}
	ep.TagSend(3, make([]byte, 8), nil)
	r.until("failure", func() bool { return failed != nil })
	if !errors.Is(failed, ucs.ErrRejected) {
		t.Errorf("failed with %v", failed)
	}
	if _, ok := b.TagPeek(0, 0); ok {
		t.Error("the message has arrived")
	}
}
