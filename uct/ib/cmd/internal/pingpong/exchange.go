//go:build linux

package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// dest is the address of a queue pair; struct pingpong_dest of
// libibverbs/examples/rc_pingpong.c.
type dest struct {
	lid verbs.LID
	qpn verbs.QPN
	psn verbs.PSN
	gid verbs.GID // zero: none
}

const (
	// destLen is the length of an address on the wire, including the zero byte at its end.
	destLen = len("0000:000000:000000:00000000000000000000000000000000") + 1
	done    = "done\x00"
)

// append encodes the address.
func (d dest) append(b []byte) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%s\x00", uint16(d.lid), uint32(d.qpn), uint32(d.psn), hex.EncodeToString(d.gid[:]))
}

// parseDest decodes an address.
func parseDest(b []byte) (d dest, err error) {
	bad := fmt.Errorf("the peer's address is %q: %w", b[:min(len(b), destLen)], ucs.ErrInvalidAddr)
	text, found := bytes.CutSuffix(b, []byte{0})
	f := bytes.Split(text, []byte(":"))
	if !found || len(b) != destLen || len(f) != 4 || len(f[0]) != 4 || len(f[1]) != 6 || len(f[2]) != 6 {
		return dest{}, bad
	}
	lid, err1 := strconv.ParseUint(string(f[0]), 16, 16)
	qpn, err2 := strconv.ParseUint(string(f[1]), 16, 24)
	psn, err3 := strconv.ParseUint(string(f[2]), 16, 24)
	n, err4 := hex.Decode(d.gid[:], f[3])
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || n != len(d.gid) {
		return dest{}, bad
	}
	d.lid, d.qpn, d.psn = verbs.LID(lid), verbs.QPN(qpn), verbs.PSN(psn)
	return d, nil
}

// sendDests sends the addresses of list, and then zero addresses up to total.
func sendDests(w io.Writer, list []dest, total int) error {
	var b []byte
	for i := range total {
		var d dest
		if i < len(list) {
			d = list[i]
		}
		b = d.append(b)
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("sending the local address: %w", err)
	}
	return nil
}

// recvDests reads total addresses and returns the first want of them. It fails unless exactly these
// have a queue pair number.
func recvDests(r io.Reader, want, total int) ([]dest, error) {
	list := make([]dest, total)
	b := make([]byte, destLen)
	for i := range list {
		n, err := io.ReadFull(r, b)
		if err != nil {
			return nil, fmt.Errorf("%d of %d bytes of the peer's address: %w", n, destLen, err)
		}
		if list[i], err = parseDest(b); err != nil {
			return nil, err
		}
	}
	for i, d := range list {
		if used := d.qpn != 0; used != (i < want) {
			return nil, fmt.Errorf("the peer does not have %d QPs like this end: %w", want, ucs.ErrInvalidAddr)
		}
	}
	return list[:want], nil
}

// Exchange of addresses. The function connect is called when the peer's addresses are known. The
// server calls it before it sends its own addresses, because the client begins to send when it has
// received them. The client calls it before it reports that it is done.

func exchangeClient(c io.ReadWriter, own []dest, total int, connect func([]dest) error) error {
	if err := sendDests(c, own, total); err != nil {
		return err
	}
	remote, err := recvDests(c, len(own), total)
	if err != nil {
		return err
	}
	if err := connect(remote); err != nil {
		return err
	}
	if _, err := io.WriteString(c, done); err != nil {
		return fmt.Errorf("confirming the peer's address: %w", err)
	}
	return nil
}

func exchangeServer(c io.ReadWriter, own []dest, total int, connect func([]dest) error) error {
	remote, err := recvDests(c, len(own), total)
	if err != nil {
		return err
	}
	if err := connect(remote); err != nil {
		return err
	}
	if err := sendDests(c, own, total); err != nil {
		return err
	}
	b := make([]byte, len(done))
	if _, err := io.ReadFull(c, b); err != nil {
		return fmt.Errorf("waiting for the peer to finish: %w", err)
	}
	if string(b) != done {
		return fmt.Errorf("the peer sent %q instead of \"done\": %w", b, ucs.ErrInvalidAddr)
	}
	return nil
}
