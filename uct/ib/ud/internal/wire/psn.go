//go:build linux

package wire

// PSN is the packet sequence number in one direction of a connection. Each packet that the peer has
// to receive (active messages, puts, CREQ and CREP) uses up a number. Other packets carry the next
// free number, from which the peer finds out which packets are missing.
//
// Numbers wrap around, so they are ordered only within half of their range: UCT_UD_PSN_COMPARE of
// src/uct/ib/ud/base/ud_def.h.
type PSN uint16

// FirstPSN is the number of an endpoint's first packet: UCT_UD_INITIAL_PSN.
const FirstPSN PSN = 1

// Before reports whether p comes before q.
func (p PSN) Before(q PSN) bool { return int16(p-q) < 0 }

// After reports whether p comes after q.
func (p PSN) After(q PSN) bool { return int16(p-q) > 0 }

// Since returns the number of packets from q to p, negative if p comes before q.
func (p PSN) Since(q PSN) int { return int(int16(p - q)) }
