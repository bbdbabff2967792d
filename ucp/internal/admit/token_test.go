package admit

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/proto"
)

// TestTokens compares the tokens with a simple reference: each proof is valid once, for its
// message, its peer and its connection, and the list of proofs without a connection is bounded.
func TestTokens(t *testing.T) {
	tokens := NewTokens(5)
	type message struct {
		peer uint64
		text string
	}
	messages := []message{{1, "a"}, {1, "b"}, {2, "a"}}
	proof := func(m message) proto.TokenProof { return tokens.KeyFor(m.peer).Prove(5, m.peer, []byte(m.text)) }
	if key := tokens.KeyFor(1); key.Prove(5, 1, nil) != tokens.Secret.Prove(5, 1, nil) {
		t.Fatal("a proof by the key is not one by the secret")
	}
	rapid.Check(t, func(t *rapid.T) {
		tokens := Tokens{Secret: tokens.Secret, Worker: 5}
		conns := make([]Proof, 2)
		last := make([]*message, len(conns)) // the message that the last proof on a connection is for
		var unnamed []*message               // those of the list; nil is a false proof
		draw := func(t *rapid.T) (m message, c int, on *Proof) {
			m = rapid.SampledFrom(messages).Draw(t, "message")
			if c = rapid.IntRange(-1, len(conns)-1).Draw(t, "connection"); c >= 0 {
				on = &conns[c]
			}
			return m, c, on
		}
		keep := func(c int, on *Proof, m *message) {
			p := proto.TokenProof{}
			if m != nil {
				p = proof(*m)
			}
			tokens.Keep(on, p)
			if on != nil {
				last[c] = m
				return
			}
			if unnamed = append(unnamed, m); len(unnamed) > maxUnnamedProofs {
				unnamed = unnamed[1:]
			}
		}
		// used removes the first proof of a message. The first of all takes its place.
		used := func(m message) bool {
			k := slices.IndexFunc(unnamed, func(o *message) bool { return o != nil && *o == m })
			if k < 0 {
				return false
			}
			unnamed[k] = unnamed[0]
			unnamed = unnamed[1:]
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"keep": func(t *rapid.T) {
				m, c, on := draw(t)
				keep(c, on, &m)
			},
			"keep a false proof": func(t *rapid.T) {
				_, c, on := draw(t)
				keep(c, on, nil)
			},
			"keep many": func(t *rapid.T) {
				for range rapid.IntRange(0, maxUnnamedProofs).Draw(t, "false proofs") {
					keep(-1, nil, nil)
				}
			},
			"verify": func(t *rapid.T) {
				m, c, on := draw(t)
				var want bool
				if on != nil {
					want = last[c] != nil && *last[c] == m
					last[c] = nil
				} else {
					want = used(m)
				}
				if got := tokens.Verify(on, m.peer, []byte(m.text)); got != want {
					t.Fatalf("verify %v: %v, want %v", m, got, want)
				}
			},
			"discard": func(t *rapid.T) {
				m, c, on := draw(t)
				if on != nil {
					last[c] = nil
				} else {
					used(m)
				}
				tokens.Discard(on, m.peer, []byte(m.text))
			},
			"": func(t *rapid.T) {
				if n := len(tokens.unnamed); n != len(unnamed) || n > maxUnnamedProofs {
					t.Fatalf("%d proofs are kept, want %d, at most %d", n, len(unnamed), maxUnnamedProofs)
				}
			},
		})
	})
}

// TestNoTokens: without a token every request is proved, and nothing is sent.
func TestNoTokens(t *testing.T) {
	var none Tokens
	if !none.Verify(nil, 1, nil) || !none.Verify(new(Proof), 1, nil) || none.KeyFor(1) != nil {
		t.Error("a worker without a token wants a proof")
	}
	none.Discard(nil, 1, nil)
	if a, b := NewTokens(1), NewTokens(1); a.Secret.Key == b.Secret.Key || a.Secret.Key == (proto.Token{}).Key {
		t.Error("the secret is not random")
	}
}
