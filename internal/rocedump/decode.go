//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// rocePort is the UDP port of RoCE v2.
const rocePort = 4791

// operations are the InfiniBand opcodes, by their low five bits.
var operations = []string{"SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY", "SEND_ONLY_IMM",
	"WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM", "WRITE_ONLY", "WRITE_ONLY_IMM", "READ_REQ",
	"READ_FIRST", "READ_MIDDLE", "READ_LAST", "READ_ONLY", "ACK", "ATOMIC_ACK", "CMP_SWAP", "FETCH_ADD"}

// services are the types of queue pairs, by the high three bits of the opcode.
var services = []string{"RC", "UC", "RD", "UD"}

// longest is the number of bytes of a payload that are printed.
const longest = 48

// reader takes headers from the front of a packet. The field short is set if the packet was too
// short.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.short = true
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// decode describes an Ethernet frame. It returns "" for other frames than RoCE v2.
func decode(frame []byte) string {
	r := &reader{b: frame}
	ether := binary.BigEndian.Uint16(r.take(14)[12:])
	var from, to netip.Addr
	switch ether {
	case 0x0800:
		ip := r.take(20)
		if ip[9] != 17 {
			return ""
		}
		r.take(max(0, int(ip[0]&15)*4-20)) // options
		from, to = netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:]))
	case 0x86dd:
		ip := r.take(40)
		if ip[6] != 17 {
			return ""
		}
		from, to = netip.AddrFrom16([16]byte(ip[8:])), netip.AddrFrom16([16]byte(ip[24:]))
	default:
		return ""
	}
	udp := r.take(8)
	if r.short || binary.BigEndian.Uint16(udp[2:]) != rocePort {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%v > %v ", from, to)
	transport(&out, r)
	if r.short {
		out.WriteString(" (cut off)")
	}
	return out.String()
}

// transport describes a RoCE packet from its base transport header on.
func transport(out *strings.Builder, r *reader) {
	bth := r.take(12)
	service, op := int(bth[0]>>5), int(bth[0]&31)
	if service >= len(services) || op >= len(operations) {
		fmt.Fprintf(out, "opcode %#x", bth[0])
		return
	}
	name := operations[op]
	fmt.Fprintf(out, "%s %s qp %#x psn %d", services[service], name, u24(bth[5:]), u24(bth[9:]))
	if bth[1]&0x80 != 0 {
		out.WriteString(" SE")
	}
	if bth[8]&0x80 != 0 {
		out.WriteString(" A")
	}
	if service == 3 {
		deth := r.take(8)
		fmt.Fprintf(out, " from %#x", u24(deth[5:]))
		if key := binary.BigEndian.Uint32(deth); key != 0x1ee7a330 { // UCX's key
			fmt.Fprintf(out, " qkey %#x", key)
		}
	}
	switch {
	case name == "READ_REQ" || name == "WRITE_FIRST" || name == "WRITE_ONLY" || name == "WRITE_ONLY_IMM":
		h := r.take(16)
		fmt.Fprintf(out, " va %#x rkey %#x len %d", binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:]), binary.BigEndian.Uint32(h[12:]))
	case name == "CMP_SWAP" || name == "FETCH_ADD":
		h := r.take(28)
		fmt.Fprintf(out, " va %#x rkey %#x swap/add %#x compare %#x", binary.BigEndian.Uint64(h), binary.BigEndian.Uint32(h[8:]),
			binary.BigEndian.Uint64(h[12:]), binary.BigEndian.Uint64(h[20:]))
	case name == "ACK" || name == "ATOMIC_ACK" || name == "READ_FIRST" || name == "READ_LAST" || name == "READ_ONLY":
		h := r.take(4)
		fmt.Fprintf(out, " syndrome %#02x msn %d", h[0], u24(h[1:]))
		if name == "ATOMIC_ACK" {
			fmt.Fprintf(out, " was %#x", binary.BigEndian.Uint64(r.take(8)))
		}
	}
	if strings.HasSuffix(name, "_IMM") {
		fmt.Fprintf(out, " imm %#x", binary.BigEndian.Uint32(r.take(4)))
	}
	// The rest is payload, padding and the ICRC.
	end := len(r.b) - 4 - int(bth[1]>>4&3)
	if end < 0 {
		r.short = true
		return
	}
	data := r.b[:end]
	switch {
	case service == 3 && len(data) >= 8:
		neth(out, data)
	case (name == "SEND_ONLY" || name == "SEND_FIRST") && len(data) > 0:
		active(out, data)
	}
	if len(data) > 0 {
		fmt.Fprintf(out, " | %x", data[:min(len(data), longest)])
		if len(data) > longest {
			fmt.Fprintf(out, "..%d", len(data))
		}
	}
}

// neth describes the header of ud_verbs (uct_ud_neth in ud_def.h).
func neth(out *strings.Builder, data []byte) {
	word := binary.LittleEndian.Uint32(data)
	fmt.Fprintf(out, " ; ep %#x", word&0xffffff)
	if word&(1<<24) != 0 {
		fmt.Fprintf(out, " AM %d", word>>27)
	} else {
		for bit, name := range []string{"NACK", "PUT", "CTL", "END", "REFUSE"} {
			if word&(1<<27<<bit) != 0 {
				out.WriteString(" " + name)
			}
		}
	}
	if word&(1<<25) != 0 {
		out.WriteString(" ACK_REQ")
	}
	fmt.Fprintf(out, " psn %d ack %d", binary.LittleEndian.Uint16(data[4:]), binary.LittleEndian.Uint16(data[6:]))
}

// active describes the first byte of a message of rc_verbs (uct_rc_hdr in rc_ep.h).
func active(out *strings.Builder, data []byte) {
	fmt.Fprintf(out, " ; AM %d", data[0]&31)
	for bit, name := range []string{"SOFT", "HARD", "GRANT"} {
		if data[0]&(0x20<<bit) != 0 {
			out.WriteString(" " + name)
		}
	}
}

func u24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
