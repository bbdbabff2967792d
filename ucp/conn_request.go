package ucp

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// ConnRequest is the connection request of a client that waits for an answer. It is either
// accepted, by EndpointParams.ConnRequest on any worker of the context, or rejected, once.
// Any goroutine may use it.
type ConnRequest struct {
	_ noCopy

	ctx     *Context
	manager string
	uct     *uct.ConnRequest
	data    proto.CMData
	taken   atomic.Bool
}

// take makes the request the caller's to answer.
func (r *ConnRequest) take() bool { return !r.missing() && !r.taken.Swap(true) }

// Reject rejects the client, as Listener.Reject does.
func (r *ConnRequest) Reject() error {
	if r.missing() {
		return errMissing("ConnRequest.Reject", r == nil)
	}
	if !r.take() {
		return fmt.Errorf("ucp: the connection request was accepted or rejected before: %w", ucs.ErrInvalidParam)
	}
	return r.uct.Reject()
}

// ClientAddr returns the address that the client connects from. The error is
// ucs.ErrUnsupported if the connection manager does not know it; all of this library's do.
func (r *ConnRequest) ClientAddr() (netip.AddrPort, error) {
	if r.missing() {
		return netip.AddrPort{}, errMissing("ConnRequest.ClientAddr", r == nil)
	}
	if !r.uct.Source.Addr.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("ucp: ConnRequest.ClientAddr: %w", ucs.ErrUnsupported)
	}
	return r.uct.Source.Addr, nil
}

// ClientID returns the client's WorkerParams.ClientID if its endpoint was made with
// EndpointSendClientID, else 0. The value is the client's claim.
func (r *ConnRequest) ClientID() uint64 { return r.data.Address.ClientID }

// ErrMode returns the error handling mode of the client's endpoint. The accepting endpoint
// has the same mode.
func (r *ConnRequest) ErrMode() ErrMode { return min(ErrMode(r.data.ErrMode), ErrModePeer) }

// Peer returns what the kernel knows about the client.
func (r *ConnRequest) Peer() PeerInfo { return peerInfo(r.uct.Source) }
