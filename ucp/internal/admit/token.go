package admit

import (
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
)

// Tokens verifies proofs that peers have the worker's address. A worker with a token has a random
// secret in its address. The proof is a digest of a request under the secret. It comes in a
// separate message before the request on the same lane. The worker keeps the digest until the
// request comes, and verifies it then. So the worker keeps no state for a peer beyond one request.
//
// The zero value is the state of a worker without a token: all requests count as proved.
type Tokens struct {
	Secret *proto.Token // nil for a worker without a token
	Worker uint64       // uuid of the worker

	// unnamed holds proofs whose requests have not come yet, from transports that cannot tell
	// connections apart. Their peers belong to the same user as this process. When the list is
	// full the first proof is dropped. The first is the oldest, except that Verify moves the first
	// proof to the index of a proof that it removes.
	unnamed []proto.TokenProof
}

// maxUnnamedProofs is the largest length of Tokens.unnamed. Many peers that start at once may have
// sent the proof, and wait for room in the transport to send the request.
const maxUnnamedProofs = 4096

// Proof is the last proof that came on a connection, until its request comes.
type Proof struct{ kept *proto.TokenProof }

// NewTokens returns the state of a worker with a new secret.
func NewTokens(worker uint64) Tokens {
	t := Tokens{Secret: &proto.Token{Kind: proto.TokenSecret}, Worker: worker}
	platform.Read(t.Secret.Key[:])
	return t
}

// KeyFor returns the token for requests to the peer with this uuid. The peer uses it to prove its
// answers. It is nil if the worker has no secret.
func (t *Tokens) KeyFor(peer uint64) *proto.Token {
	if t.Secret == nil {
		return nil
	}
	k := t.Secret.KeyOf(t.Worker, peer)
	return &k
}

// Keep keeps a proof for the request that follows. The parameter on is the Proof of the connection
// that the proof came on, nil for transports that cannot tell connections apart. A second proof on
// a connection replaces the first.
func (t *Tokens) Keep(on *Proof, proof proto.TokenProof) {
	if on != nil {
		on.kept = &proof
		return
	}
	if len(t.unnamed) == maxUnnamedProofs {
		t.unnamed = t.unnamed[1:]
	}
	t.unnamed = append(t.unnamed, proof)
}

// Verify reports whether a proof for the message of a peer has come, and discards the proof, which
// is valid only once. The parameter on is the proof of the message's connection, as for Keep.
func (t *Tokens) Verify(on *Proof, peer uint64, message []byte) bool {
	if t.Secret == nil {
		return true
	}
	if on != nil {
		proof := on.kept
		on.kept = nil
		return proof != nil && proof.Equal(t.Secret.Prove(t.Worker, peer, message))
	}
	if len(t.unnamed) == 0 {
		return false
	}
	right := t.Secret.Prove(t.Worker, peer, message)
	k := slices.IndexFunc(t.unnamed, right.Equal)
	if k < 0 {
		return false
	}
	t.unnamed[k] = t.unnamed[0]
	t.unnamed = t.unnamed[1:]
	return true
}

// Discard removes the proof for a message that needs none.
func (t *Tokens) Discard(on *Proof, peer uint64, message []byte) {
	if on != nil {
		on.kept = nil
		return
	}
	t.Verify(nil, peer, message)
}
