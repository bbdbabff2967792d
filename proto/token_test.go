package proto

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/internal/fuzztest"
)

// token returns a token of a kind, made of bytes that are easy to find.
func token(kind TokenKind) *Token {
	t := &Token{Kind: kind}
	copy(t.Key[:], bytes.Repeat([]byte{0xA7}, tokenSize))
	return t
}

// TestTokenInAddress checks that a token is packed into and parsed from addresses of every form and
// does not count as a device. A reader that does not know tokens sees one more device, with an
// unknown transport.
func TestTokenInAddress(t *testing.T) {
	for _, form := range []AddressForm{FormWorker, FormWireup} {
		for name, edit := range map[string]func(a *WorkerAddress){
			"all":        func(*WorkerAddress) {},
			"no release": func(a *WorkerAddress) { a.Release = 0; a.Devices[0].MD = 3 },
			"no devices": func(a *WorkerAddress) { a.Devices, a.Release = nil, 0 },
		} {
			want := full()
			edit(&want)
			if form&FormRscIndex == 0 {
				eachIface(&want, func(f *AddressIface) { f.RscIndex = NullResource })
			}
			n := len(want.Devices)
			plain, err := want.Append(nil, form)
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []TokenKind{TokenSecret, TokenKey} {
				want.Token = token(kind)
				b, err := want.Append(nil, form)
				if err != nil {
					t.Fatal(err)
				}
				got := mustAddress(t, b, form)
				if d := cmp.Diff(want, got); d != "" || len(want.Devices) != n {
					t.Errorf("%s: -want +got\n%s", name, d)
				}
				if c := got.Clone(); c.Token == got.Token || *c.Token != *got.Token {
					t.Errorf("%s: a copy shares the token, or has another", name)
				}
				if text := got.String(); strings.Contains(text, "a7a7") || !strings.Contains(text, "token") {
					t.Errorf("%s: the token is told: %s", name, text)
				}

				other := bytes.Replace(b, le.AppendUint16(nil, uint16(TransportToken)), le.AppendUint16(nil, 0xBEEF), 1)
				seen := mustAddress(t, other, form)
				if seen.Token != nil || len(seen.Devices) != n+1 {
					t.Fatalf("%s: %d devices for who knows no tokens", name, len(seen.Devices))
				}
				seen.Devices = seen.Devices[:n]
				if n == 0 {
					seen.Devices = nil
				}
				if d := cmp.Diff(mustAddress(t, plain, form), seen); d != "" {
					t.Errorf("%s: the rest is another for who knows no tokens\n%s", name, d)
				}
			}
		}
	}
}

// TestTokenMisplaced checks that a malformed token is read as an unknown transport, and that only
// one of several tokens is kept.
func TestTokenMisplaced(t *testing.T) {
	for name, edit := range map[string]func(d *AddressDevice){
		"short":              func(d *AddressDevice) { d.Ifaces[0].Addr = d.Ifaces[0].Addr[:tokenSize] },
		"long":               func(d *AddressDevice) { d.Ifaces[0].Addr = append(d.Ifaces[0].Addr, 0) },
		"empty":              func(d *AddressDevice) { d.Ifaces[0].Addr = nil },
		"of another kind":    func(d *AddressDevice) { d.Ifaces[0].Addr[0] = 3 },
		"of kind 0":          func(d *AddressDevice) { d.Ifaces[0].Addr[0] = 0 },
		"with an address":    func(d *AddressDevice) { d.Addr = []byte{1} },
		"beside a transport": func(d *AddressDevice) { d.Ifaces = append(d.Ifaces, d.Ifaces[0]) },
		"with an endpoint":   func(d *AddressDevice) { d.Ifaces[0].EpAddrs = []AddressEp{{}} },
	} {
		d := token(TokenSecret).device()
		edit(&d)
		a := WorkerAddress{Flags: AddressHasUUID, Devices: []AddressDevice{d}}
		b, err := a.Append(nil, FormWorker)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustAddress(t, b, FormWorker); got.Token != nil || len(got.Devices) != 1 {
			t.Errorf("%s: %v", name, got.Token)
		}
	}
	a := WorkerAddress{Flags: AddressHasUUID, Token: token(TokenKey), Devices: []AddressDevice{token(TokenSecret).device()}}
	b, err := a.Append(nil, FormWorker)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustAddress(t, b, FormWorker); got.Token == nil || got.Token.Kind != TokenKey || len(got.Devices) != 0 {
		t.Errorf("of two tokens: %+v", got)
	}
	a.Token.Kind = 9
	if b, err := a.Append([]byte("kept"), FormWorker); err == nil || string(b) != "kept" {
		t.Errorf("a token of an unknown kind is packed: %q, %v", b, err)
	}
	a = full()
	a.Token = token(TokenSecret)
	a.Devices[0].Ifaces = make([]AddressIface, maxAddressIfaces)
	if _, err := a.Append(nil, FormWorker); err == nil {
		t.Error("a token beside as many interfaces as there may be is packed")
	}
}

// TestTokenProof checks that a proof is valid for one worker, one peer, one message and one secret
// only, and that the key that was derived for a peer gives the same proof for that peer as the
// secret.
func TestTokenProof(t *testing.T) {
	secret := token(TokenSecret)
	message := []byte("a message")
	right := secret.Prove(1, 2, message)
	key := secret.KeyOf(1, 2)
	if key.Kind != TokenKey || key.Key == secret.Key {
		t.Fatal("the key is the secret")
	}
	if !key.Prove(1, 2, message).Equal(right) || key.KeyOf(1, 2) != key {
		t.Error("the key does not prove what the secret does")
	}
	other := *secret
	other.Key[31] ^= 1
	for name, p := range map[string]TokenProof{
		"another worker":            secret.Prove(3, 2, message),
		"another peer":              secret.Prove(1, 3, message),
		"both the other way round":  secret.Prove(2, 1, message),
		"another message":           secret.Prove(1, 2, []byte("a messagf")),
		"a longer message":          secret.Prove(1, 2, append(message, 0)),
		"no message":                secret.Prove(1, 2, nil),
		"another secret":            other.Prove(1, 2, message),
		"the key as another peer":   key.Prove(1, 3, message),
		"the key as another worker": key.Prove(3, 2, message),
		"nothing":                   {},
		"the key itself":            {key.Key},
		"the secret itself":         {secret.Key},
	} {
		if p.Equal(right) {
			t.Errorf("%s: the proof is the same", name)
		}
	}
	b := right.Append([]byte("x"))
	if len(b) != 1+TokenProofSize {
		t.Fatalf("%d bytes", len(b))
	}
	if p, err := ParseTokenProof(b[1:]); err != nil || !p.Equal(right) {
		t.Errorf("%v, %v", p, err)
	}
	for n := range TokenProofSize {
		if _, err := ParseTokenProof(b[1 : 1+n : 1+n]); err == nil {
			t.Errorf("%d bytes are a proof", n)
		}
	}
	for _, bad := range [][]byte{append(slices.Clone(b[1:]), 0), append([]byte{2}, b[2:]...), make([]byte, TokenProofSize)} {
		if _, err := ParseTokenProof(bad); err == nil {
			t.Errorf("% x is a proof", bad)
		}
	}
}

func FuzzParseTokenProof(f *testing.F) {
	f.Add(token(TokenSecret).Prove(1, 2, nil).Append(nil))
	f.Add(make([]byte, TokenProofSize))
	f.Add([]byte{tokenProofForm})
	fuzztest.Run(f, func(t *testing.T, b []byte) {
		p, err := ParseTokenProof(b)
		if err == nil && !bytes.Equal(p.Append(nil), b) {
			t.Errorf("% x becomes % x", b, p.Append(nil))
		}
	})
}
