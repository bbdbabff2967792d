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

// A worker with a token has a random secret in its address, and takes requests only of
// who proves that he has the address. The proof is a digest of the request under the
// secret, in a message of its own that goes in front of the request over the same lane.
// What is kept of it until then is that digest: whether it is right is found out when
// the request comes. So there is no state of who has proved what, nothing that outlives
// a request, and no difference between transports that know their peers apart and those
// that do not. Messages that are no requests are not looked at.
//
// What the application gave out holds the secret. What a request carries is a key that
// was derived for its receiver, who needs it when he asks in turn whether the other end
// still exists.

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

	// Proofs whose requests have not come yet, of transports that do not tell
	// connections apart. Their peers are of our own user; the first give way, which
	// are the oldest but for those that took the place of one that was used up.
	unnamed []proto.TokenProof
}

// maxUnnamedProofs bounds them: peers that start at once may all have sent the proof and
// wait for room for the request.
const maxUnnamedProofs = 4096

// tokenFamily is the proof of having the worker's address.
type tokenFamily struct{ noFamily }

func (tokenFamily) about() familyInfo { return familyInfo{name: "token"} }

// handlers receive no proofs where nobody can have a token.
func (tokenFamily) handlers(w *Worker) []handler {
	if w.token.secret == nil {
		return nil
	}
	return []handler{{proto.IDToken, w.admission.onToken}}
}

// start draws the secret. Of what the application and the setting say the stricter holds.
func (tokenFamily) start(w *Worker) {
	w.token.mode = max(w.params.Token, TokenMode(w.ctx.settings.Token))
	if w.token.mode == TokenOff {
		return
	}
	w.token.secret = &proto.Token{Kind: proto.TokenSecret}
	rand.Read(w.token.secret.Key[:]) // it never fails
}

// tokenFor is the token in requests to a worker.
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
	stepProof               // the proof, in front of it
)

// firstStep says with which step a wireup message begins: questions that could have
// something made for them are proved to peers that have a token.
func (ws *wireupState) firstStep(ep *Endpoint, t proto.WireupType) uint8 {
	asks := t == proto.WireupRequest || t == proto.WireupEpCheck
	if asks && ep.dest.address.Token != nil {
		return stepProof
	}
	return stepWireup
}

// sendProof sends the proof of a wireup message, unless that is done or not wanted.
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
		s.proof = &proof // a second one takes the place of the first
		return nil
	}
	t := &w.token
	if len(t.unnamed) == maxUnnamedProofs {
		t.unnamed = t.unnamed[1:]
	}
	t.unnamed = append(t.unnamed, proof)
	return nil
}

// proved reports whether a question of a peer was proved, or need not be. The error
// says that without a proof it is none to look at; it drops the connection, for the peer
// not to wait.
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

// verify looks for the proof of a message, and uses it up: it is good for once.
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

// unproved refuses who has not proved that he has the address.
func (ad *admission) unproved(from *source) error {
	w := ad.w
	err := fmt.Errorf("ucp: the peer has not proved that it has the worker's token: %w", ucs.ErrRejected)
	if w.refused(from, ledger.Token) {
		w.ctx.log.Warn("request without the token refused", zap.String("worker", w.name), zap.Error(err))
	}
	return err
}
