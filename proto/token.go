package proto

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/ucx-go/ucx/ucs"
)

// A token is a secret in the address of a worker. A peer proves that it has the address, without
// revealing the secret: it sends a proof in a separate message before each request. Only this
// library has tokens. In an address a token looks like a transport that C UCX does not know. The
// proof has an active message id that C UCX leaves unassigned, and is sent only to workers whose
// address has a token.

// TransportToken is the id that marks a token in an address. There is no such transport;
// the name is "token".
const TransportToken TransportID = 0x61F7

// TokenKind is the purpose of a token.
type TokenKind uint8

// Kinds of tokens.
const (
	// TokenSecret is the secret in a worker's address. A process that has it can make proofs
	// in the name of any peer.
	TokenSecret TokenKind = 1

	// TokenKey is a key that is derived from the secret for one peer, and is useless to other
	// peers. A request contains the key that its receiver needs for the answers.
	TokenKey TokenKind = 2
)

// tokenSize is the length of secrets, keys and proofs in bytes.
const tokenSize = sha256.Size

// Token is a secret, or a key derived from one.
type Token struct {
	Kind TokenKind
	Key  [tokenSize]byte
}

// Labels that precede the data of a digest, one per purpose.
const (
	tokenKeyLabel   = "ucx-go token key"
	tokenProofLabel = "ucx-go token proof"
)

// KeyOf returns the key that a worker gives to a peer. The parameters are the uuids of both. It is
// derived from the secret; a token that is already a key is returned unchanged.
func (t *Token) KeyOf(worker, peer uint64) Token {
	if t.Kind != TokenSecret {
		return *t
	}
	return Token{Kind: TokenKey, Key: t.digest(tokenKeyLabel, worker, peer, nil)}
}

// Prove returns the proof that a peer sends to a worker before a message. The parameters worker and
// peer are the uuids of both. The proof covers the bytes of the message, and is not valid for any
// other message.
func (t *Token) Prove(worker, peer uint64, message []byte) TokenProof {
	k := t.KeyOf(worker, peer)
	return TokenProof{k.digest(tokenProofLabel, worker, peer, message)}
}

func (t *Token) digest(label string, worker, peer uint64, message []byte) (sum [tokenSize]byte) {
	h := hmac.New(sha256.New, t.Key[:])
	head := le.AppendUint64([]byte(label), worker)
	h.Write(le.AppendUint64(head, peer))
	h.Write(message)
	h.Sum(sum[:0])
	return sum
}

// TokenProof is the message by which a peer proves that it has the token.
type TokenProof struct{ MAC [tokenSize]byte }

// tokenProofForm is the first byte of a packed proof.
const tokenProofForm = 1

// TokenProofSize is the length of the packed message.
const TokenProofSize = 1 + tokenSize

var errTokenProof = amError("token", "malformed proof")

// Append appends the packed message.
func (p TokenProof) Append(b []byte) []byte {
	return append(append(b, tokenProofForm), p.MAC[:]...)
}

// ParseTokenProof reads the message. Another form or another length than TokenProofSize is an
// error.
func ParseTokenProof(b []byte) (p TokenProof, err error) {
	if len(b) != TokenProofSize || b[0] != tokenProofForm {
		return p, errTokenProof
	}
	copy(p.MAC[:], b[1:])
	return p, nil
}

// Equal compares two proofs in constant time.
func (p TokenProof) Equal(q TokenProof) bool { return hmac.Equal(p.MAC[:], q.MAC[:]) }

// device returns the device that represents the token in an address: a device without a device
// address that has one transport.
func (t *Token) device() AddressDevice {
	return AddressDevice{NumPaths: 1, SysDev: SysDevUnknown, Ifaces: []AddressIface{{
		Transport: TransportToken,
		Attr:      IfaceAttr{Bandwidth: 1}, // parsers reject a bandwidth of 0
		Addr:      append([]byte{byte(t.Kind)}, t.Key[:]...),
	}}}
}

// tokenOf returns the token that a device represents, nil if it is a real device. A token of
// unknown kind counts as a real device with an unknown transport.
func tokenOf(d *AddressDevice) *Token {
	if len(d.Addr) != 0 || len(d.Ifaces) != 1 {
		return nil
	}
	f := &d.Ifaces[0]
	if f.Transport != TransportToken || len(f.Addr) != 1+tokenSize || len(f.EpAddrs) != 0 {
		return nil
	}
	t := &Token{Kind: TokenKind(f.Addr[0])}
	if t.Kind != TokenSecret && t.Kind != TokenKey {
		return nil
	}
	copy(t.Key[:], f.Addr[1:])
	return t
}

// check rejects tokens of unknown kind.
func (t *Token) check() error {
	if t.Kind != TokenSecret && t.Kind != TokenKey {
		return formatErrorf(ucs.ErrInvalidParam, "address", "token of kind %d", t.Kind)
	}
	return nil
}
