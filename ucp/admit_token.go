package ucp

import (
	"fmt"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Token mode. The address of a worker with a token contains a random secret. The worker accepts
// requests only from peers that prove that they have the address. The proof is a separate message
// that precedes the request on the same lane (admit.Tokens). Messages that are not requests are not
// checked.
//
// Only the address that the application passes on contains the secret. The address in a request
// contains instead a key derived from the secret for the receiver of the request. With this key the
// receiver can prove its own endpoint checks, which ask whether the sender's endpoint still exists.

// TokenMode selects which peers may open endpoints to a worker: all peers, or those that
// prove that they have its address.
type TokenMode uint8

// Token modes, from the most open one to the strictest.
const (
	// TokenOff admits every peer. The address has no token.
	TokenOff TokenMode = iota

	// TokenOrKnown admits peers that prove possession of the address, and peers that the
	// application knows: it has an endpoint to their address, or has allowed it
	// (Worker.Allow). In this way peers of C UCX, which have no tokens, can be admitted one
	// by one; their address is their only credential.
	TokenOrKnown

	// TokenRequired admits only peers that prove possession of the address, and no peer of
	// C UCX. Endpoints to C UCX peers work, but their requests are refused. Over shared
	// memory, which has no connection to drop, such a peer waits forever.
	TokenRequired
)

// String returns the name that UCX_TOKEN takes.
func (m TokenMode) String() string {
	if m > TokenRequired {
		return fmt.Sprintf("token mode %d", uint8(m))
	}
	return [...]string{"n", "known", "y"}[m]
}

// tokenSetting is the value of UCX_TOKEN.
type tokenSetting TokenMode

// ParseConfig implements config.Value.
func (v *tokenSetting) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "n", "no", "off", "0":
		*v = tokenSetting(TokenOff)
	case "known":
		*v = tokenSetting(TokenOrKnown)
	case "y", "yes", "on", "1":
		*v = tokenSetting(TokenRequired)
	default:
		return fmt.Errorf("%q is neither n, known nor y: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v tokenSetting) String() string { return TokenMode(v).String() }

// ConfigSyntax describes the values for error messages and listings.
func (tokenSetting) ConfigSyntax() string { return "n, known, y" }

// tokenFamily is the family of token messages, by which peers prove that they have the worker's
// address.
type tokenFamily struct{ noFamily }

func (tokenFamily) about() familyInfo { return familyInfo{name: "token"} }

// handlers returns the handler of token messages, none for a worker without a token.
func (tokenFamily) handlers(w *Worker) []handler {
	if w.admission.gate.Tokens.Secret == nil {
		return nil
	}
	return []handler{{proto.IDToken, w.admission.onToken}}
}

// start initializes admission control. The stricter of WorkerParams.Token and UCX_TOKEN applies.
func (tokenFamily) start(w *Worker) {
	w.admission.start(max(w.params.Token, TokenMode(w.ctx.settings.Token)))
}

// Steps of sending a wireup message (Request.step).
const (
	stepWireup uint8 = iota // the message itself
	stepProof               // the proof of the token, which precedes the message
)

// firstStep returns the step that a wireup message begins with. Toward a peer with a token,
// requests and endpoint checks begin with the proof, because the peer might create an endpoint for
// them.
func (ws *wireupState) firstStep(ep *Endpoint, t proto.WireupType) uint8 {
	asks := t == proto.WireupRequest || t == proto.WireupEpCheck
	if asks && ep.dest.address.Token != nil {
		return stepProof
	}
	return stepWireup
}

// sendProof sends the proof of a wireup message unless it was sent before or is not needed. It
// returns the transport's error if the proof could not be sent.
func (ad *admission) sendProof(r *Request) error {
	if r.step != stepProof {
		return nil
	}
	_, err := r.ep.lane(r.lane).AMBcopy(uct.AMID(proto.IDToken), r.hooks(), 0, nil)
	if err == nil || err == ucs.InProgress {
		r.step = stepWireup
		return nil
	}
	return err
}

// packProof writes the proof of the wireup message of r to dst and returns its length in bytes.
func (ad *admission) packProof(r *Request, dst []byte) int {
	to := r.ep.dest.address
	proof := to.Token.Prove(to.UUID, r.w.uuid, r.data.Buf)
	return len(proof.Append(dst[:0]))
}

// onToken handles a received proof: it keeps the proof for the request that follows.
func (ad *admission) onToken(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ad.w
	proof, err := proto.ParseTokenProof(data)
	if err != nil {
		return w.logMalformed(err)
	}
	ad.gate.Tokens.Keep(w.accounts.sourceOf(src).tokenProof(), proof)
	return nil
}
