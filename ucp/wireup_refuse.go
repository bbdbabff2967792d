package ucp

import (
	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// What peers are told whose endpoints get no end here. An endpoint that fails says nothing any
// more, and its lanes may not even be connected: the word goes over one that is made for it.

// sayRemoved tells a peer that there is no end here for its endpoint, and never will be. That
// goes over an endpoint of its own, which stays until it has left; mode is that of the end
// that there is not.
func (w *Worker) sayRemoved(from *source, m *proto.Wireup, said *proto.WorkerAddress, mode ErrMode) error {
	ep, err := w.answering(from, m.Address.WithoutEnds(), said, ErrModeNone, laneRules{answer: true})
	if err != nil {
		return err
	}
	ep.countAs(from)
	ep.connSN, ep.errMode = proto.ConnSNNone, mode
	ep.sendWireup(proto.WireupEpRemoved, m.SrcEp, w.emptyAddress())
	if r, err := ep.closeAsync(nil); err != nil {
		ep.destroy(ucs.ErrCanceled)
	} else {
		r.free()
	}
	return nil
}

// refusePairs is told that the lanes that a peer asks for cannot be had. Its end would
// wait.
func (ep *Endpoint) refusePairs(from *source, m *proto.Wireup, said *proto.WorkerAddress, err error) {
	ep.w.ctx.log.Diag("lanes that a peer has asked for cannot be connected", zap.String("endpoint", ep.describe()), zap.Error(err))
	if err := ep.w.sayRemoved(from, m, said, ep.errMode); err != nil {
		ep.w.ctx.log.Debug("cannot notify the peer of the refusal", zap.Error(err))
	}
	ep.fail(err)
}
