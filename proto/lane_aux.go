package proto

import (
	"github.com/ucx-go/ucx/uct"
)

// SelectAux chooses the lane for the wireup messages of an endpoint whose lanes all still
// have to be connected pairwise: one local resource and an entry of the peer's address that
// carry messages without a connection (ucp_wireup_select_aux_transport in
// src/ucp/wireup/select.c). The result has only that lane. The error wraps
// ucs.ErrUnreachable.
func SelectAux(in *LaneInput) (LaneConfig, LaneTrace, error) {
	s := newSelector(in, false)
	c := criteria{
		lane: LaneAM, title: "auxiliary",
		flags:     uct.IfaceAMBcopy | uct.IfacePending | uct.IfaceConnectToIface | s.errFlags(),
		peer:      PeerAMSync | PeerConnectToIface | PeerCBAsync,
		auxiliary: true,
		score:     s.scorer.am,
	}
	p, ok := s.choose(c, s.scope())
	if !ok {
		c.peer &^= PeerCBAsync
		p, ok = s.choose(c, s.scope())
	}
	if !ok {
		return LaneConfig{}, s.trace, s.unreachable()
	}
	s.add(LaneAM, p)
	return s.config(), s.trace, nil
}
