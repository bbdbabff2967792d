package proto

import (
	"crypto/hmac"
	"crypto/sha256"

	"github.com/ucx-go/ucx/ucs"
)

// A token is a secret in the address of a worker. Who has the address proves it, without
// telling it, by a message of its own in front of each that asks the worker for something
// new. Only this library has tokens: in an address one looks like a transport that C
// does not know, and the proof has an active message id that C leaves free and is sent
// only to workers whose address has a token.

// TransportToken is the id that marks a token in an address. There is no such transport;
// the name is "token".
const TransportToken TransportID = 0x61F7

// TokenKind is the purpose of a token.
type TokenKind uint8

// Kinds of tokens.
const (
	// TokenSecret is the worker's own secret, in its address. A process that has it can
	// make proofs as any peer.
	TokenSecret TokenKind = 1

	// TokenKey is derived from the secret for one peer, and is useless to others. It is in
	// requests, for the answers to them.
	TokenKey TokenKind = 2
)

// tokenSize is the length of secrets, keys and proofs in bytes.
const tokenSize = sha256.Size

// Token is a secret, or a key derived from one.
type Token struct {
	Kind TokenKind
	Key  [tokenSize]byte
}

// What a digest is for goes in front of what it is of.
const (
	tokenKeyLabel   = "ucx-go token key"
	tokenProofLabel = "ucx-go token proof"
)

// KeyOf returns the key that worker gives to peer; both are identified by their uuids.
func (t *Token) KeyOf(worker, peer uint64) Token {
	if t.Kind != TokenSecret {
		return *t
	}
	return Token{Kind: TokenKey, Key: t.digest(tokenKeyLabel, worker, peer, nil)}
}

// Prove returns the proof that a peer sends to a worker before a message. It covers the
// bytes of that message and is worthless with any other.
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

// tokenProofForm is what proofs begin with.
const tokenProofForm = 1

// TokenProofSize is the length of the packed message.
const TokenProofSize = 1 + tokenSize

var errTokenProof = amError("token", "wrong form or length of a proof")

// Append appends the packed message.
func (p TokenProof) Append(b []byte) []byte {
	return append(append(b, tokenProofForm), p.MAC[:]...)
}

// ParseTokenProof reads the message, which has one form and a fixed length.
func ParseTokenProof(b []byte) (p TokenProof, err error) {
	if len(b) != TokenProofSize || b[0] != tokenProofForm {
		return p, errTokenProof
	}
	copy(p.MAC[:], b[1:])
	return p, nil
}

// Equal compares in constant time.
func (p TokenProof) Equal(q TokenProof) bool { return hmac.Equal(p.MAC[:], q.MAC[:]) }

// device is the token as what stands for it in an address: a device without address
// that has one transport.
func (t *Token) device() AddressDevice {
	return AddressDevice{NumPaths: 1, SysDev: SysDevUnknown, Ifaces: []AddressIface{{
		Transport: TransportToken,
		Attr:      IfaceAttr{Bandwidth: 1}, // what has none is refused
		Addr:      append([]byte{byte(t.Kind)}, t.Key[:]...),
	}}}
}

// tokenOf returns the token that a device stands for, nil if it is a device. A token of
// another kind than these is a transport that nobody has.
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

// check refuses tokens that no reader would know.
func (t *Token) check() error {
	if t.Kind != TokenSecret && t.Kind != TokenKey {
		return formatErrorf(ucs.ErrInvalidParam, "address", "token of kind %d", t.Kind)
	}
	return nil
}
