package ucp

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Token mode. A worker with a token has a random secret in its address, and accepts requests only
// from peers that prove that they have the address. The proof is a digest of the request under
// the secret, in a message of its own that precedes the request on the same lane. The worker
// keeps only that digest until the request comes; only then can the digest be verified. So the
// worker has no record of which peers have proved what, nothing that outlives a request, and no
// difference between transports that tell their peers apart and those that do not. Messages that
// are not requests are not checked.
//
// The address that the application gave out holds the secret. A request carries instead a key
// that was derived for the receiver of the request. The receiver needs the key to ask in turn
// whether the other end still exists.

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

// tokenState is a worker's token.
type tokenState struct {
	mode   TokenMode
	secret *proto.Token // nil in TokenOff

	// unnamed holds proofs whose requests have not come yet, from transports that do not tell
	// connections apart. Their peers belong to the same user as this process. When the list is
	// full the first proof is dropped. The first is the oldest, unless it was moved into the
	// place of a proof that was used up.
	unnamed []proto.TokenProof
}

// maxUnnamedProofs bounds tokenState.unnamed: peers that start at once may all have sent the
// proof and wait for room for the request.
const maxUnnamedProofs = 4096

// tokenFamily handles the proofs that peers have the worker's address.
type tokenFamily struct{ noFamily }

func (tokenFamily) about() familyInfo { return familyInfo{name: "token"} }

// handlers returns the handler of proofs, none for a worker without a token.
func (tokenFamily) handlers(w *Worker) []handler {
	if w.token.secret == nil {
		return nil
	}
	return []handler{{proto.IDToken, w.admission.onToken}}
}

// start creates the secret. The stricter of WorkerParams.Token and UCX_TOKEN holds.
func (tokenFamily) start(w *Worker) {
	w.token.mode = max(w.params.Token, TokenMode(w.ctx.settings.Token))
	if w.token.mode == TokenOff {
		return
	}
	w.token.secret = &proto.Token{Kind: proto.TokenSecret}
	rand.Read(w.token.secret.Key[:]) // it never fails
}

// tokenFor returns the token in requests to the worker with this uuid, nil without tokens.
func (ad *admission) tokenFor(uuid uint64) *proto.Token {
	w := ad.w
	if w.token.secret == nil {
		return nil
	}
	t := w.token.secret.KeyOf(w.uuid, uuid)
	return &t
}

// The steps of a wireup message.
const (
	stepWireup uint8 = iota // the message itself
	stepProof               // the proof, before the message
)

// firstStep returns the step that a wireup message begins with. To a peer with a token, requests
// and endpoint checks, for which the peer could make an endpoint, begin with the proof.
func (ws *wireupState) firstStep(ep *Endpoint, t proto.WireupType) uint8 {
	asks := t == proto.WireupRequest || t == proto.WireupEpCheck
	if asks && ep.dest.address.Token != nil {
		return stepProof
	}
	return stepWireup
}

// sendProof sends the proof of a wireup message, unless it is sent already or not needed.
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

// packProof writes the proof of the wireup message of r.
func (ad *admission) packProof(r *Request, dst []byte) int {
	to := r.ep.dest.address
	proof := to.Token.Prove(to.UUID, r.w.uuid, r.data.buf)
	return len(proof.Append(dst[:0]))
}

// onToken keeps a proof for the request that follows.
func (ad *admission) onToken(src *uct.Source, data []byte, _ *uct.AMDesc) error {
	w := ad.w
	proof, err := proto.ParseTokenProof(data)
	if err != nil {
		return w.logMalformed(err)
	}
	s := w.accounts.sourceOf(src)
	if s.uct != nil {
		s.proof = &proof // a second proof replaces the first
		return nil
	}
	t := &w.token
	if len(t.unnamed) == maxUnnamedProofs {
		t.unnamed = t.unnamed[1:]
	}
	t.unnamed = append(t.unnamed, proof)
	return nil
}

// proved reports whether a request of a peer was proved or need not be. If an unproved request is
// to be refused whichever peer it comes from, proved returns an error, which drops the
// connection, so that the peer does not wait.
func (ad *admission) proved(from *source, m *proto.Wireup, message []byte) (bool, error) {
	w := ad.w
	t := &w.token
	if t.mode == TokenOff || t.verify(from, w.uuid, m.Address.UUID, message) {
		return true, nil
	}
	if t.mode == TokenRequired {
		return false, ad.unproved(from)
	}
	return false, nil
}

// verify looks for the proof of a message, and uses the proof up: a proof is valid once.
func (t *tokenState) verify(from *source, worker, peer uint64, message []byte) bool {
	if from.uct != nil {
		proof := from.proof
		from.proof = nil
		return proof != nil && proof.Equal(t.secret.Prove(worker, peer, message))
	}
	if len(t.unnamed) == 0 {
		return false
	}
	right := t.secret.Prove(worker, peer, message)
	k := slices.IndexFunc(t.unnamed, right.Equal)
	if k < 0 {
		return false
	}
	t.unnamed[k] = t.unnamed[0]
	t.unnamed = t.unnamed[1:]
	return true
}

// discard uses up the proof of a message that needs none.
func (t *tokenState) discard(from *source, worker, peer uint64, message []byte) {
	if from.uct != nil {
		from.proof = nil
		return
	}
	t.verify(from, worker, peer, message)
}

// unproved returns the error for a peer that has not proved that it has the worker's address.
func (ad *admission) unproved(from *source) error {
	w := ad.w
	err := fmt.Errorf("ucp: the peer has not proved that it has the worker's token: %w", ucs.ErrRejected)
	if w.refused(from, ledger.Token) {
		w.ctx.log.Warn("request without the token refused", zap.String("worker", w.name), zap.Error(err))
	}
	return err
}
