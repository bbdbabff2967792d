//go:build linux

package sockcm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

const testLimit = 2064

// captured returns the private data of C UCX's connections (testdata/wire/cm.txt).
func captured(t testing.TB) (list [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../../../testdata/wire/cm.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 2 && (words[0] == "client" || words[0] == "server") {
			b, err := hex.DecodeString(words[1])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			list = append(list, b)
		}
	}
	if len(list) < 2 {
		t.Fatalf("%d captured messages", len(list))
	}
	return list
}

// The messages that C UCX exchanges, as captured, without their private data.
const (
	header47     = "2f000000000000000000000000000000"
	rejectBytes  = "0000000000000000e900000000000000"
	notification = "00000000000000000000000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// written takes the output of a machine, n bytes at a time.
func written(m *machine, n int) (all []byte) {
	for len(m.out) > 0 {
		k := min(n, len(m.out))
		all = append(all, m.out[:k]...)
		m.wrote(k)
	}
	return all
}

// hears gives bytes to a machine, n at a time.
func hears(m *machine, b []byte, n int) (msg message, whole bool, err error) {
	for len(b) > 0 && err == nil {
		if whole {
			return msg, whole, errors.New("whole before the end")
		}
		k := min(n, len(b))
		msg, whole, err = m.receive(b[:k])
		b = b[k:]
	}
	return msg, whole, err
}

// TestGolden checks that machines write, and accept, the bytes that C has written.
func TestGolden(t *testing.T) {
	private := bytes.Repeat([]byte{0xab}, 47)
	want := append(unhex(t, header47), private...)
	m := machine{state: connecting, limit: testLimit}
	m.request(private)
	if got := written(&m, 10); !bytes.Equal(got, want) {
		t.Errorf("the request is %x", got)
	}
	m = machine{state: requested, limit: testLimit}
	m.reject()
	if got := written(&m, 16); hex.EncodeToString(got) != rejectBytes {
		t.Errorf("the rejection is %x", got)
	}
	m = machine{state: answered, limit: testLimit}
	m.notify()
	if got := written(&m, 1); hex.EncodeToString(got) != notification || m.state != established {
		t.Errorf("the notification is %x, state %d", got, m.state)
	}
	// C leaves arbitrary bytes in unused fields.
	want[9], want[15] = 0xde, 0xad
	m = machine{limit: testLimit}
	if msg, whole, err := hears(&m, want, len(want)); !whole || err != nil || msg.status != ucs.OK || !bytes.Equal(msg.private, private) {
		t.Errorf("read %+v, whole %v, %v", msg, whole, err)
	}
	m = machine{state: awaitAnswer, limit: testLimit}
	if msg, whole, err := hears(&m, unhex(t, rejectBytes), 5); !whole || err != nil || msg.status != ucs.ErrRejected {
		t.Errorf("read %+v, whole %v, %v", msg, whole, err)
	}
}

// TestConversation runs whole conversations of two machines with private data captured from C, in
// pieces of all sizes.
func TestConversation(t *testing.T) {
	list := captured(t)
	list = append(list, nil, make([]byte, testLimit))
	for i, there := range list {
		back := list[(i+1)%len(list)]
		for _, n := range []int{1, 7, 15, 16, 17, 4096} {
			client, server := machine{state: connecting, limit: testLimit}, machine{limit: testLimit}
			client.request(there)
			msg, whole, err := hears(&server, written(&client, n), n)
			if !whole || err != nil || !bytes.Equal(msg.private, there) || server.state != requested || client.state != awaitAnswer {
				t.Fatalf("%d bytes by %d: the request is %+v, whole %v, %v", len(there), n, msg, whole, err)
			}
			server.answer(back)
			msg, whole, err = hears(&client, written(&server, n), n)
			if !whole || err != nil || !bytes.Equal(msg.private, back) || client.state != answered || server.state != awaitNotify {
				t.Fatalf("%d bytes by %d: the answer is %+v, whole %v, %v", len(back), n, msg, whole, err)
			}
			client.notify()
			msg, whole, err = hears(&server, written(&client, n), n)
			if !whole || err != nil || msg.status != ucs.OK || client.state != established || server.state != established {
				t.Fatalf("by %d: the notification is %+v, whole %v, %v", n, msg, whole, err)
			}
		}
	}
}

// TestBroken checks which messages violate the protocol, and in which state.
func TestBroken(t *testing.T) {
	say := func(n uint64, status int8, data int) []byte {
		b := appendMessage(nil, ucs.Status(status), make([]byte, data))
		b[0], b[1], b[2], b[7] = byte(n), byte(n>>8), byte(n>>16), byte(n>>56)
		return b
	}
	for _, c := range []struct {
		what string
		at   state
		b    []byte
		want error
	}{
		{"a request longer than the limit", awaitRequest, say(testLimit+1, 0, 0), errLong},
		{"a request of 2^63 bytes", awaitRequest, say(1<<63, 0, 0), errLong},
		{"an answer of 2^64-16 bytes", awaitAnswer, append([]byte{0xf0, 255, 255, 255, 255, 255, 255, 255}, make([]byte, 8)...), errLong},
		{"a request that rejects", awaitRequest, say(0, -23, 0), errStatus},
		{"an answer in progress", awaitAnswer, say(0, 1, 0), errStatus},
		{"a byte behind the request", awaitRequest, say(3, 0, 4), errTurn},
		{"a byte behind the answer", awaitAnswer, say(3, 0, 4), errTurn},
		{"a byte behind the notification", awaitNotify, say(0, 0, 1), errTurn},
		{"a notification with data", awaitNotify, say(1, 0, 1), errNotify},
		{"a byte before the server has answered", requested, []byte{0}, errTurn},
		{"a byte while the server answers", answering, []byte{0}, errTurn},
		{"a byte before the request", connecting, []byte{0}, errTurn},
		{"a byte while the client asks", requesting, []byte{0}, errTurn},
		{"a byte behind the answer, later", answered, []byte{0}, errTurn},
		{"a byte at the end", established, []byte{0}, errTurn},
	} {
		m := machine{state: c.at, limit: testLimit}
		if _, whole, err := m.receive(c.b); whole || !errors.Is(err, c.want) {
			t.Errorf("%s: whole %v, %v, want %v", c.what, whole, err, c.want)
		}
	}
}

// TestLost checks the status of a connection that ends, in each state.
func TestLost(t *testing.T) {
	for s := awaitRequest; s <= established; s++ {
		want := ucs.ErrConnectionReset
		if s >= connecting && s <= awaitAnswer {
			want = ucs.ErrNotConnected
		}
		m := machine{state: s, limit: testLimit, receivedAny: s > awaitAnswer}
		if got := m.lost(); got != want {
			t.Errorf("state %d: %v, want %v", s, got, want)
		}
	}
	m := machine{state: awaitAnswer, limit: testLimit}
	m.receive([]byte{0})
	if got := m.lost(); got != ucs.ErrConnectionReset {
		t.Errorf("in the middle of an answer: %v", got)
	}
}

// TestClaims: a header alone does not allocate the memory that it announces.
func TestClaims(t *testing.T) {
	m := machine{limit: maxPrivate}
	b := appendMessage(nil, ucs.OK, make([]byte, maxPrivate))
	if _, whole, err := m.receive(b[:headerLen]); whole || err != nil || cap(m.in) > 64 {
		t.Errorf("whole %v, %v, %d bytes are kept", whole, err, cap(m.in))
	}
}

// FuzzMachine gives bytes in pieces to the machines of both sides, which answer every complete
// message. A message that is accepted is encoded to the same bytes; no more memory is kept than
// bytes have come.
func FuzzMachine(f *testing.F) {
	ends := func(b []byte) []byte { return append(append([]byte{}, b...), unhex(f, notification)...) }
	for _, b := range captured(f) {
		f.Add(false, ends(appendMessage(nil, ucs.OK, b)), []byte{byte(headerLen + len(b))})
		f.Add(true, appendMessage(nil, ucs.OK, b), []byte{5, 11, 1})
	}
	f.Add(true, unhex(f, rejectBytes), []byte{1})
	f.Add(false, ends(unhex(f, notification)), []byte{16, 16})
	f.Add(false, appendMessage(nil, ucs.OK, make([]byte, testLimit+1)), []byte{255})
	fuzztest.Run(f, func(t *testing.T, client bool, stream, pieces []byte) {
		m := machine{limit: testLimit}
		if client {
			m.state = connecting
			m.request([]byte("request"))
			written(&m, 1<<20)
		}
		var said []byte // since the last whole message
		for k := 0; len(stream) > 0; k++ {
			n := len(stream)
			if len(pieces) > 0 {
				n = min(n, max(int(pieces[k%len(pieces)]), 1))
			}
			before := m.state
			said = append(said, stream[:n]...)
			msg, whole, err := m.receive(stream[:n])
			stream = stream[n:]
			if err != nil {
				if whole {
					t.Fatalf("whole and %v", err)
				}
				return
			}
			if cap(m.in) > 2*len(said)+64 || len(m.in) > headerLen+testLimit {
				t.Fatalf("%d bytes are kept, in room for %d, of %d", len(m.in), cap(m.in), len(said))
			}
			if !whole {
				if m.state != before {
					t.Fatalf("from state %d to %d without a message", before, m.state)
				}
				continue
			}
			again := appendMessage(nil, msg.status, msg.private)
			copy(again[9:], said[9:headerLen])
			if !bytes.Equal(again, said) || len(msg.private) > testLimit || msg.status > 0 {
				t.Fatalf("%x was read as %+v", said, msg)
			}
			said = nil
			switch {
			case m.state == requested:
				m.answer([]byte("answer"))
			case m.state == answered && msg.status == ucs.OK:
				m.notify()
			}
			if written(&m, 3); len(m.out) > 0 {
				t.Fatal("something is left to be written")
			}
		}
	})
}
