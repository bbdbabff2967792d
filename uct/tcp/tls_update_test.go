//go:build linux

package tcp

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"net"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/certtest"
)

// updater encrypts the records of a client itself after the handshake: crypto/tls answers key
// updates and never requests them.
type updater struct {
	t      testing.TB
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newUpdater reads the client's secret from the key log of crypto/tls.
func newUpdater(t testing.TB, p *tlsPeer, log string) *updater {
	t.Helper()
	if s := p.tc.ConnectionState().CipherSuite; s != tls.TLS_AES_128_GCM_SHA256 {
		t.Skipf("the ends have chosen %s", tls.CipherSuiteName(s))
	}
	for line := range strings.Lines(log) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(f[2])
			if err != nil {
				t.Fatal(err)
			}
			u := &updater{t: t}
			u.use(secret)
			return u
		}
	}
	t.Fatal("no secret in the log")
	return nil
}

// expand is HKDF-Expand-Label (RFC 8446, section 7.1).
func (u *updater) expand(label string, n int) []byte {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(append(append(info, byte(len(label))), label...), 0)
	b, err := hkdf.Expand(sha256.New, u.secret, string(info), n)
	if err != nil {
		u.t.Fatal(err)
	}
	return b
}

func (u *updater) use(secret []byte) {
	u.secret, u.seq = secret, 0
	block, err := aes.NewCipher(u.expand("key", 16))
	if err == nil {
		u.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	u.iv = u.expand("iv", 12)
}

// record encrypts a payload.
func (u *updater) record(kind byte, payload []byte) []byte {
	nonce := bytes.Clone(u.iv)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^u.seq)
	u.seq++
	n := len(payload) + 1 + u.aead.Overhead()
	hdr := []byte{23, 3, 3, byte(n >> 8), byte(n)}
	return u.aead.Seal(hdr, nonce, append(bytes.Clone(payload), kind), hdr)
}

// update requests new keys and uses its own from then on.
func (u *updater) update() []byte {
	b := u.record(22, []byte{24, 0, 0, 1, 1})
	u.use(u.expand("traffic upd", 32))
	return b
}

// TestTLSKeyUpdate: keys are updated when the peer requests it.
func TestTLSKeyUpdate(t *testing.T) {
	h, p, u := updating(t, dialTLS)
	for range 3 {
		p.sendRaw(u.update())
	}
	p.sendRaw(u.record(23, flight(addr("127.0.0.1:5"), 0)))
	p.want(ack)
	// A request in pieces, each in a record of its own.
	p.sendRaw(u.record(22, []byte{24, 0}))
	b := u.record(22, []byte{0, 1, 1})
	u.use(u.expand("traffic upd", 32))
	p.sendRaw(b[:7])
	p.sendRaw(b[7:], u.record(23, am(3, "later")))
	until(t, "message", func() bool { return len(h.got) == 1 }, h)
	if h.got[0] != (message{3, "later"}) {
		t.Errorf("got %v", h.got)
	}
}

// TestTLSUpdateFlood: a peer that keeps requesting key updates and does not read the answers is
// disconnected before the answers use up memory.
func TestTLSUpdateFlood(t *testing.T) {
	h, p, u := updating(t, deafTLS)
	p.sendRaw(u.record(23, flight(addr("127.0.0.1:5"), 0)))
	p.want(ack)
	sent := 0
	var err error
	p.meanwhile(func() {
		for ; err == nil && sent < 1<<20; sent++ {
			b := u.update()
			_, err = p.tc.NetConn().Write(append(b, u.record(23, am(idKeepalive, ""))...))
		}
	})
	if e, ok := err.(net.Error); err == nil || ok && e.Timeout() {
		t.Fatalf("%d new keys, and still there: %v", sent, err)
	}
	left(t, h, 0)
}

// updating returns a host and a client that encrypts its records itself.
func updating(t *testing.T, dial func(testing.TB, *host, *tls.Config) *tlsPeer) (*host, *tlsPeer, *updater) {
	t.Helper()
	ca := certtest.New()
	h := tlsHost(t, ca.Mutual("bob"))
	var log strings.Builder
	cfg := ca.Mutual("carol")
	cfg.NextProtos, cfg.KeyLogWriter = []string{alpn}, &log
	p := dial(t, h, cfg)
	return h, p, newUpdater(t, p, log.String())
}

func (p *tlsPeer) sendRaw(parts ...[]byte) {
	p.t.Helper()
	var err error
	p.meanwhile(func() { _, err = p.tc.NetConn().Write(bytes.Join(parts, nil)) })
	if err != nil {
		p.t.Fatal(err)
	}
}
