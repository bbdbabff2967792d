package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
)

// What all protocols do that move data in several calls of the transport: r.offset
// is how far they are, r.frag what the call moves, and the request's completion
// counts the calls that have not ended, and one more until all are made.

// packFragment fills a packet, behind the n bytes of its header, with data from off
// on, at most limit bytes, and notes how much fits.
func (r *Request) packFragment(dst []byte, n, limit, off int) int {
	room := min(len(dst), r.ep.cfg.maxBcopy) - n
	r.frag = r.data.packAt(dst[n:n+min(room, limit)], off)
	return r.frag
}

// fragmentSent accounts for one transport call among several. The completion
// was told to count it.
func (r *Request) fragmentSent(err error) error {
	if err != ucs.InProgress {
		r.comp.Count--
	}
	if err != nil && err != ucs.InProgress {
		return err
	}
	if r.frag <= 0 && r.data.length > 0 {
		return r.packedNothing(r.offset)
	}
	r.offset += r.frag
	return nil
}

// packedNothing is the error of a datatype that gives up before the end.
//
//go:noinline
func (r *Request) packedNothing(offset int) error {
	return fmt.Errorf("ucp: the datatype packed nothing at offset %d of %d: %w", offset, r.data.length, ucs.ErrInvalidParam)
}

// class is the shape of the request's data for the decision tables.
func (r *Request) class() proto.DataClass {
	switch {
	case r.data.class == DatatypeContig:
		return proto.DataContig
	case r.data.class == DatatypeIOV && len(r.data.list) <= r.ep.cfg.maxIOV:
		return proto.DataIOV
	}
	return proto.DataGeneric
}
