package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// offers takes the offers of tagged messages.
func (tagFamily) offers(w *Worker) (proto.RndvOp, offerHandler) { return proto.RndvTag, w.onTagOffer }

// onTagOffer matches an offer with a receive, or keeps it until there is one.
func (w *Worker) onTagOffer(src *uct.Source, h proto.RndvRTS, key, _ []byte) error {
	tag := Tag(h.Header)
	if r := w.tag.matchExpected(tag); r != nil {
		w.fetchTagged(r, &h, key)
		return nil
	}
	if n := len(key); n == proto.MinRkeySize || n > maxOfferKey {
		key = nil // it opens nothing, or nothing that is mapped
	}
	from := w.sourceOf(src)
	if err := w.charge(from, messageSize+len(key)); err != nil {
		return err
	}
	w.stats.Unexpected++
	d := w.newMessage(from, tag, messageRndv, h.Size)
	d.rndv, d.data = h, nil
	if len(key) > 0 {
		d.keep(key, nil)
	}
	w.tag.addUnexpected(d)
	return nil
}

// maxOfferKey bounds the key that is kept with an offer.
const maxOfferKey = 2048

// fetchTagged gets the data of an offer that a receive has matched.
func (w *Worker) fetchTagged(r *Request, h *proto.RndvRTS, key []byte) {
	r.info = TagRecvInfo{SenderTag: Tag(h.Header), Length: h.Size}
	w.fetch(r, h, key)
}
