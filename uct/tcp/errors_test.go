//go:build linux

package tcp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// TestErrorText: the text of an error names the connection and what happened to it, and the error
// matches both its status and its cause. Package statuserr tests which cause has which status.
func TestErrorText(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	for _, c := range []struct {
		cause  error
		status ucs.Status
		want   string
	}{
		{nil, ucs.ErrConnectionReset, "closed by the peer"},
		{unix.ECONNRESET, ucs.ErrConnectionReset, "connection reset by peer"},
		{errForbidden, ucs.ErrConnectionReset, errForbidden.Error() + ": " + ucs.ErrConnectionReset.Error()},
	} {
		e := &Error{Op: "read", Device: "lo", Local: at, Peer: at, Status: c.status, Err: c.cause}
		if !strings.HasSuffix(e.Error(), " on lo: "+c.want) {
			t.Errorf("%q, want %q at its end", e, c.want)
		}
		if !errors.Is(e, c.status) || c.cause != nil && !errors.Is(e, c.cause) {
			t.Errorf("%v does not match %v and %v", e, c.status, c.cause)
		}
	}
}
