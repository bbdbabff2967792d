//go:build linux

package pingpong

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// printLocal prints the local address. As in C, ud_pingpong separates the GID by a colon, the other
// tools by a comma.
func (t *Tool) printLocal(w io.Writer, d dest) {
	sep := ","
	if t.typ == verbs.UD {
		sep = ":"
	}
	d.print(w, "local address: ", sep)
}

func printRemote(w io.Writer, d dest) { d.print(w, "remote address:", ",") }

func (d dest) print(w io.Writer, what, sep string) {
	// GID.Addr is not used, because an IPv4 address is printed in its IPv6 form too.
	fmt.Fprintf(w, "  %s LID 0x%04x, QPN 0x%06x, PSN 0x%06x%s GID %v\n", what, uint16(d.lid), uint32(d.qpn), uint32(d.psn), sep, netip.AddrFrom16(d.gid))
}

// printRates prints the amount of data, the elapsed time and the resulting rates.
func printRates(w io.Writer, size, iters int, elapsed time.Duration) {
	bytes := 2 * int64(size) * int64(iters)
	usec := float64(elapsed) / float64(time.Microsecond)
	fmt.Fprintf(w, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, usec/1e6, float64(bytes)*8/usec)
	fmt.Fprintf(w, "%d iters in %.2f seconds = %.2f usec/iter\n", iters, usec/1e6, usec/float64(iters))
}

// verify compares the last received message with the one that a client with -c sends; a server
// sends it back unchanged. It prints a line for each page that differs, and fails if there are any.
func (s *session) verify(w io.Writer) error {
	in, bad := s.in[s.grh():], 0
	for page := 0; page*pageSize < len(in); page++ {
		first := page * pageSize
		for i := first; i < min(first+pageSize, len(in)); i++ {
			want := s.tool.fill
			if i == first {
				want = 0
			}
			if in[i] != want {
				fmt.Fprintf(w, "invalid data in page %d\n", page)
				bad++
				break
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d pages of the last message have wrong data: %w", bad, ucs.ErrIO)
	}
	return nil
}
