//go:build linux

package tcp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

var allowMessage = cmp.AllowUnexported(message{})

func TestMessages(t *testing.T) {
	a, b, ep := pair(t)
	big := strings.Repeat("0123456789abcdef", 4096)
	if err := ep.AMShort(3, 0x0807060504030201, []byte("short"), 0, nil); err != nil {
		t.Fatalf("first send: %v", err)
	}
	if err := ep.AMShortIOV(4, []uct.IOV{{Data: []byte("i")}, {}, {Data: []byte("ov")}}, 0, nil); err != ucs.InProgress {
		t.Fatalf("second send of a round: %v", err)
	}
	if n, err := ep.AMBcopy(5, text("bcopy"), 0, nil); n != 5 || err != ucs.InProgress {
		t.Fatalf("bcopy: %d, %v", n, err)
	}
	err := ep.AMZcopy(6, text("head"), []uct.IOV{{Data: []byte(big[:60000])}, {Data: []byte("tail")}}, 0, nil)
	if err != nil && err != ucs.InProgress {
		t.Fatal(err)
	}
	want := []message{
		{3, "\x01\x02\x03\x04\x05\x06\x07\x08short"},
		{4, "iov"},
		{5, "bcopy"},
		{6, "head" + big[:60000] + "tail"},
	}
	until(t, "messages", func() bool { return len(b.got) == len(want) }, a, b)
	if diff := cmp.Diff(want, b.got, allowMessage); diff != "" {
		t.Error(diff)
	}
}

func TestPutAndFlush(t *testing.T) {
	a, b, ep := pair(t)
	target := make([]byte, 1<<20)
	mem, err := b.md.Register(target, uct.AccessRemotePut)
	if err != nil {
		t.Fatal(err)
	}
	defer b.md.Deregister(mem)
	src := []byte(strings.Repeat("x", len(target)-2))
	d := newDone()
	if err := ep.PutZcopy([]uct.IOV{{Data: src}}, addressOf(target)+1, nil, &d.comp); err != ucs.InProgress {
		t.Fatal(err)
	}
	until(t, "put", func() bool { return d.n == 1 }, a, b)
	if d.comp.Err != nil || string(target[1:len(target)-1]) != string(src) || target[0] != 0 || target[len(target)-1] != 0 {
		t.Errorf("put arrived wrong: %v", d.comp.Err)
	}
	if err := ep.Flush(uct.FlushRemote, nil); err != nil {
		t.Errorf("flush after an acknowledged put: %v", err)
	}
	ep.AMShort(1, 0, nil, 0, nil)
	d = newDone()
	if err := ep.Flush(uct.FlushRemote, &d.comp); err != ucs.InProgress {
		t.Errorf("flush after a message: %v", err)
	}
	until(t, "flush", func() bool { return d.n == 1 }, a, b)
	if len(b.got) != 1 {
		t.Error("flushed before the message was delivered")
	}
}
