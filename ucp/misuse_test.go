package ucp_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMisuseIsNamed: the error of a call that a program gets wrong names the call, the parameter and
// what is wanted.
func TestMisuseIsNamed(t *testing.T) {
	ctx := newContext(t, ucp.ContextParams{})
	w, err := ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	rma := newContext(t, ucp.ContextParams{Features: ucp.FeatureRMA | ucp.FeatureAMO64})
	v, err := rma.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	own, err := v.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	far, err := v.NewEndpoint(ucp.EndpointParams{Address: own})
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort("127.0.0.1:0")
	bg := context.Background()
	newEndpoint := func(p ucp.EndpointParams) func() error {
		return func() error { _, err := w.NewEndpoint(p); return err }
	}
	listen := func(p ucp.ListenerParams) func() error {
		return func() error { _, err := w.NewListener(p); return err }
	}
	for _, c := range []struct {
		call func() error
		says []string
	}{
		{func() error { return ep.AMSendWait(bg, 1, nil, nil, 0) }, []string{"AMSend", "feature am", "ContextParams.Features"}},
		{func() error { return ep.TagSendWait(bg, 1, nil) }, []string{"TagSend", "feature tag"}},
		{func() error { return ep.StreamSendWait(bg, nil) }, []string{"StreamSend", "feature stream"}},
		{func() error { _, err := w.TagRecvWait(bg, 1, 0, nil); return err }, []string{"TagRecv", "feature tag"}},
		{func() error { return ep.PutWait(bg, nil, 0, nil) }, []string{"a put", "feature rma"}},
		{func() error { return far.PutWait(bg, nil, 0, nil) }, []string{"a put", "nil", "UnpackRkey"}},
		{func() error { _, err := ucp.FetchAddWait[uint64](bg, far, 0, nil, 1); return err }, []string{"nil", "UnpackRkey"}},
		{func() error { _, err := w.EventFD(); return err }, []string{"EventFD", "feature wakeup"}},
		{w.Arm, []string{"Arm", "feature wakeup"}},
		{w.Signal, []string{"Signal", "feature wakeup"}},
		{newEndpoint(ucp.EndpointParams{}), []string{"none of Address, RemoteAddr"}},
		{newEndpoint(ucp.EndpointParams{Address: addr, RemoteAddr: at}), []string{"more than one"}},
		{newEndpoint(ucp.EndpointParams{Address: addr, ErrMode: 7}), []string{"ErrMode is 7"}},
		{newEndpoint(ucp.EndpointParams{Address: addr, Flags: 1 << 9}), []string{"Flags has 0x200"}},
		{newEndpoint(ucp.EndpointParams{Address: addr, LocalAddr: at}), []string{"LocalAddr", "without RemoteAddr"}},
		{newEndpoint(ucp.EndpointParams{Address: addr, ClientID: 3}), []string{"ClientID"}},
		{listen(ucp.ListenerParams{OnAccept: func(*ucp.Endpoint) {}}), []string{"Addr is not given"}},
		{listen(ucp.ListenerParams{Addr: at}), []string{"neither OnConnRequest nor OnAccept"}},
		{listen(ucp.ListenerParams{Addr: at, OnAccept: func(*ucp.Endpoint) {}, OnConnRequest: func(*ucp.ConnRequest) {}}), []string{"both"}},
		{func() error { _, err := ucp.NewContext(ucp.ContextParams{RequireTLS: true}, nil); return err }, []string{"RequireTLS", "TLS is nil"}},
		{func() error { _, err := ucp.NewContext(ucp.ContextParams{EstimatedPPN: -1}, nil); return err }, []string{"EstimatedPPN -1"}},
		{func() error { _, err := w.Address(1 << 7); return err }, []string{"Address", "0x80"}},
		{func() error { _, err := (*ucp.Request)(nil).TagRecvInfo(); return err }, []string{"nil"}},
	} {
		err := c.call()
		if !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v, want %q", err, c.says)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"NewEndpoint": newEndpoint(ucp.EndpointParams{Address: addr}), "NewListener": listen(ucp.ListenerParams{Addr: at}),
		"Flush": func() error { return w.FlushWait(bg) }, "Fence": w.Fence,
	} {
		if err := call(); !errors.Is(err, ucs.ErrInvalidParam) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s on a closed worker: %v", name, err)
		}
	}
}
