//go:build linux

package rc

// Flow control (src/uct/ib/rc/base/rc_ep.h, uct_rc_iface_fc_handler). The sender of messages
// has a window: the number of messages that it may send without a grant. At half of the window
// it asks the peer for a grant with its next message (soft request), at a quarter for a grant
// at once (hard request), each time once. A grant fills the window again, however much is left.
// Flow control takes three bits in the first byte of a message. A message that is only a grant,
// with all three bits set, needs no window.

// Bits of the first byte of a message besides its ID.
const (
	fcSoft  = 0x20
	fcHard  = 0x40
	fcGrant = 0x80
	fcPure  = fcSoft | fcHard | fcGrant

	idMask = 0x1f
)

// flowLimits are the window and thresholds of an interface, in messages.
type flowLimits struct {
	window, soft, hard int32
	off                bool // there is no flow control
}

// newFlowLimits computes the limits as C does (uct_rc_init_fc_thresh). The window is at most
// the length of the receive queue.
func newFlowLimits(window, receives int, soft, hard float64, enabled bool) flowLimits {
	w := min(window, receives)
	return flowLimits{
		window: int32(w),
		soft:   max(int32(float64(w)*soft), 1),
		hard:   max(int32(float64(w)*hard), 1),
		off:    !enabled,
	}
}

// flow is the flow control of one endpoint.
type flow struct {
	left int32 // messages left in the window
	owed bool  // the next message carries a grant
}

// open fills the window.
func (f *flow) open(l *flowLimits) { f.left = l.window }

// bits returns the flow control bits of the next message. ok is false if the message has to
// wait for a grant.
func (f *flow) bits(l *flowLimits) (b byte, ok bool) {
	if f.left <= l.soft {
		switch {
		case l.off:
			f.left = l.window
		case f.left <= 0:
			return 0, false
		case f.left == l.hard:
			b = fcHard
		case f.left == l.soft:
			b = fcSoft
		}
	}
	if f.owed {
		b |= fcGrant
	}
	return b, true
}

// sent records that a message has been sent with the bits that the method bits returned.
func (f *flow) sent() {
	f.left--
	f.owed = false
}

// received handles the bits of a received message. reply is true if a grant must be sent at once;
// pure is true if the message was only a grant.
func (f *flow) received(b byte, l *flowLimits) (reply, pure bool) {
	if b&fcGrant != 0 {
		f.left = l.window
		if b&fcPure == fcPure {
			return false, true
		}
	}
	switch {
	case b&fcSoft != 0:
		f.owed = true
	case b&fcHard != 0:
		return true, false
	}
	return false, false
}
