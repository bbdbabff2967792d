//go:build linux

package wire

// PSN is the number of a packet in its direction of a connection. Packets that the
// peer has to receive (active messages, puts, CREQ and CREP) have one of their own;
// others carry the next one that is free, by which the peer finds out what is missing.
//
// Numbers go round, so they have an order only within half of the circle:
// UCT_UD_PSN_COMPARE of src/uct/ib/ud/base/ud_def.h.
type PSN uint16

// FirstPSN is the number of an endpoint's first packet: UCT_UD_INITIAL_PSN.
const FirstPSN PSN = 1

// Before reports whether p was used earlier than q.
func (p PSN) Before(q PSN) bool { return int16(p-q) < 0 }

// After reports whether p is used later than q.
func (p PSN) After(q PSN) bool { return int16(p-q) > 0 }

// Since is the number of packets from q to p, negative if p was earlier.
func (p PSN) Since(q PSN) int { return int(int16(p - q)) }
