package admit

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// Gate decides which wireup requests one worker answers.
type Gate struct {
	Closed        bool // only trusted peers are admitted
	ProofRequired bool // if the worker has a token, even trusted peers need a proof of it

	Tokens Tokens
	Rates  Rates
}

// Request is a wireup request or an endpoint check, as a worker has received it.
type Request struct {
	Message []byte               // the packed message
	Address *proto.WorkerAddress // the address in the message; Decide removes what is not verified
	Opens   bool                 // the message is a request for an endpoint, not an endpoint check
	Proof   *Proof               // of the connection; nil if connections cannot be told apart
	Now     time.Duration        // time of the worker's clock

	// Again means that the request was deferred before. Proved is the Decision.Proved of that time.
	Again, Proved bool
}

// Standing says how far a worker knows and trusts the peer that an address names.
type Standing uint8

// Levels of trust in a peer.
const (
	Unknown   Standing = iota // the worker knows no such peer
	NotPeer                   // the worker knows the peer, but the sender lacks its certificate
	Untrusted                 // the worker has admitted a request of the peer before
	Trusted                   // the application has made an endpoint to the peer or has allowed it
)

// Peers is what the worker knows about the sender of one request.
type Peers interface {
	// Standing returns the standing of the peer that an address names.
	Standing(addr *proto.WorkerAddress) Standing

	// Migrated reports whether the unknown sender may be a trusted peer to which the application
	// has an endpoint that is not connected yet. Such a peer connects from an address that neither
	// the peer nor the application has named. The claimed address is Finding.Claimed.
	Migrated(claimed *proto.WorkerAddress) bool

	// Resolve starts the resolution of those addresses of entries that the system must look up on
	// the network, and reports whether there are any.
	Resolve(addr *proto.WorkerAddress) bool
}

// Verdict is what package ucp must do with a request.
type Verdict uint8

// Verdicts on a request.
const (
	// Refuse means that the connection of the request is dropped.
	Refuse Verdict = iota

	// Defer means that the worker stops reading the connection until all addresses of the request
	// are resolved, and then calls Gate.Decide again.
	Defer

	// Admit means that the worker answers the request over lanes to the verified entries of its
	// address. If there is no such lane, and Finding.Claimed is not nil, the worker answers only
	// over the connection of the request.
	Admit
)

// Decision is the result of all checks of a request.
type Decision struct {
	Verdict Verdict
	Reason  ledger.Reason // with Refuse, the reason for statistics
	Err     error         // with Refuse, the error of the dropped connection; otherwise nil

	Wait     time.Duration // if not 0, how long the worker must not read the connection
	Proved   bool          // the sender has proved that it has the token, or needs no proof
	NotPeer  bool          // the sender does not have the certificate of the peer that it claims to be
	Migrated bool          // Peers.Migrated is true, which does not verify the sender
	Finding                // what the check of the address has found
}

var (
	errUnproved = fmt.Errorf("ucp: the peer has not proved that it has the worker's token: %w", ucs.ErrRejected)
	errClosed   = fmt.Errorf("ucp: the worker refuses unknown peers (WorkerParams.Closed or UCX_CLOSED=y): %w", ucs.ErrRejected)
)

// Decide decides whether the worker answers a request. v checks the address of the request; if v is
// nil, the address is trusted and the request does not count for the source's rate. The package
// comment gives the order of the checks.
func (g *Gate) Decide(r *Request, v *Validator, peers Peers) (d Decision) {
	d.Proved = r.Proved
	if !r.Again {
		if v != nil {
			if d.Wait, d.Err = g.Rates.Take(v.Host.Source(), r.Now); d.Err != nil {
				d.Reason = ledger.TooManyEps
				return d
			}
		}
		d.Proved = g.Tokens.Verify(r.Proof, r.Address.UUID, r.Message)
		if !d.Proved && g.ProofRequired {
			d.Reason, d.Err = ledger.Token, errUnproved
			return d
		}
	}
	named := peers.Standing(r.Address)
	d.NotPeer = named == NotPeer
	if d.Reason, d.Err = g.refusal(named, d.Proved); d.Err != nil {
		return d
	}
	if v != nil {
		d.Finding = v.Validate(r.Address)
	}
	named = peers.Standing(r.Address)
	d.NotPeer = d.NotPeer || named == NotPeer
	if named < Untrusted && d.Proved && r.Opens && peers.Migrated(d.Claimed) {
		named, d.Migrated = Trusted, true
	}
	if d.Reason, d.Err = g.refusal(named, d.Proved); d.Err != nil {
		return d
	}
	if !r.Again && peers.Resolve(r.Address) {
		d.Verdict = Defer
		return d
	}
	d.Verdict = Admit
	return d
}

// refusal returns the reason and the error with which a peer of this standing is refused, because
// it has not proved that it has the worker's token, or because the worker is closed to unknown
// peers. The error is nil if the peer is not refused.
func (g *Gate) refusal(s Standing, proved bool) (ledger.Reason, error) {
	switch {
	case s == Trusted:
		return 0, nil
	case !proved:
		return ledger.Token, errUnproved
	case g.Closed:
		return ledger.Policy, errClosed
	}
	return 0, nil
}
