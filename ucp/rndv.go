package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// rndvFamily is the rendezvous: how messages travel that are offered first, whatever
// they are for. rndv_send.go and rndv_recv.go open with the picture.
type rndvFamily struct{ noFamily }

func (rndvFamily) about() familyInfo {
	return familyInfo{name: "rndv", features: FeatureTag | FeatureAM}
}

func (rndvFamily) handlers(w *Worker) []handler {
	return []handler{
		{proto.IDRndvRTS, w.onRndvRTS},
		{proto.IDRndvRTR, w.onRndvRTR},
		{proto.IDRndvData, w.onRndvData},
		{proto.IDRndvATS, w.onRndvATS},
		{proto.IDRndvATP, w.onRndvATP},
	}
}

func (rndvFamily) protocols() []protocolEntry {
	return []protocolEntry{
		{proto.ProtoRndvAM, rndvOffer{}},
		{proto.ProtoRndvPut, rndvOffer{}},
		{proto.ProtoRndvGet, rndvOffer{}},
		{proto.ProtoRndvPtr, rndvOffer{}},
		{proto.ProtoDataBcopy, rndvBcopy{}},
		{proto.ProtoDataZcopy, rndvZcopy{}},
		{proto.ProtoDataPut, rndvPut{}},
	}
}

// configure makes the decision tables.
func (rndvFamily) configure(c *epConfig, in *proto.ProtoInput) { c.rndv = proto.NewRndvTables(in) }

// explain returns the tables for contiguous memory.
func (rndvFamily) explain(_ *Endpoint, c *epConfig) []proto.TableInfo {
	list := []proto.TableInfo{
		c.rndv.ExplainAsk(proto.DataContig, proto.OfferAddress),
		c.rndv.ExplainAnswer(proto.DataContig, true),
	}
	if len(c.maps) > 0 {
		list = append(list, c.rndv.ExplainAsk(proto.DataContig, proto.OfferKey))
	}
	return list
}

// closed unmaps what is mapped of the peer's memory.
func (rndvFamily) closed(ep *Endpoint) { ep.w.forgetAttachments(ep) }

// rndvState is what a worker keeps for rendezvous.
type rndvState struct {
	// offers take the offers of messages, by what those are for; nil where the
	// context has no family for it.
	offers [proto.NumRndvOps]offerHandler

	key      []byte        // of the offer that is being received
	attached []*attachment // memory of peers, the latest used first
}

// offerHandler takes an offer. key is the packed key that came with it, empty for
// none, and rest what follows; both are valid during the call. The error is that of
// a message handler.
type offerHandler func(src *uct.Source, h proto.RndvRTS, key, rest []byte) error

// start asks the families for the receivers of their offers.
func (rndvFamily) start(w *Worker) {
	for _, f := range families {
		if op, fn := f.offers(w); fn != nil && w.has(f) {
			w.rndv.offers[op] = fn
		}
	}
}
