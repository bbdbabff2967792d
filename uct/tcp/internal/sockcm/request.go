//go:build linux

package sockcm

import (
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// request is the request of a client that waits for the application's answer.
type request struct {
	connkit.Request
	link
}

// Drop implements connkit.Client.
func (r *request) Drop() { r.close() }

// present converts a visitor that has left the event set to a request and passes the request to
// the application.
func (v *pendingConn) present(private []byte) {
	l := v.l
	device, err := l.m.host.Device(v.fd, v.Local.Addr())
	if err != nil {
		v.refuse(ledger.Connections, err.Error())
		return
	}
	if !v.known {
		v.source = l.m.source(&v.link)
	}
	r := &request{link: v.link}
	r.Init(&l.Listener, r, v.Charge)
	p := &r.Public
	p.Source, p.LocalAddr, p.Device, p.Private = v.source, v.Local, device, private
	p.RemoteDeviceAddr = l.m.host.DeviceAddr(v.Remote.Addr())
	l.Present(l, &r.Request)
}
