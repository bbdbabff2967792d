package ucp

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// ConnRequest is a client that waits for an answer: it is accepted, by
// EndpointParams.ConnRequest on any worker of the context, or rejected, once. Any goroutine
// may have it.
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

// Reject is Listener.Reject.
func (r *ConnRequest) Reject() error {
	if r.missing() {
		return errMissing("ConnRequest.Reject", r == nil)
	}
	if !r.take() {
		return fmt.Errorf("ucp: the request for a connection was accepted or rejected before: %w", ucs.ErrInvalidParam)
	}
	return r.uct.Reject()
}

// ClientAddr is where the client connects from. Where a connection manager cannot tell,
// none so far, that is ucs.ErrUnsupported.
func (r *ConnRequest) ClientAddr() (netip.AddrPort, error) {
	if r.missing() {
		return netip.AddrPort{}, errMissing("ConnRequest.ClientAddr", r == nil)
	}
	if !r.uct.Source.Addr.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("ucp: address of a client: %w", ucs.ErrUnsupported)
	}
	return r.uct.Source.Addr, nil
}

// ClientID is WorkerParams.ClientID of the client, if its endpoint was made with
// EndpointSendClientID, else 0. It is what the client says.
func (r *ConnRequest) ClientID() uint64 { return r.data.Address.ClientID }

// ErrMode is the error handling mode of the client's endpoint; that which accepts must
// have the same.
func (r *ConnRequest) ErrMode() ErrMode { return min(ErrMode(r.data.ErrMode), ErrModePeer) }

// Peer says who the client is, as the kernel has it.
func (r *ConnRequest) Peer() PeerInfo { return peerInfo(r.uct.Source) }
