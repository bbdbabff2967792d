package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// epConfig is what endpoints with the same lanes have in common: the limits of
// the transport and the choice of protocols. It does not change once made.
type epConfig struct {
	short     int // largest payload of the short protocol, -1 for none
	maxBcopy  int // largest message, headers included
	maxZcopy  int // same for zero-copy, 0 for none
	maxIOV    int
	zcopyFrom int // length from which zero-copy is worth it
	rndvFrom  int // length from which rendezvous is used
	rndvFast  int // same for sends that prefer early completion
	put       bool
	putMax    int
}

// configFor returns the configuration for a lane.
func (w *Worker) configFor(c *candidate) *epConfig {
	key := fmt.Sprintf("%d/%d", c.iface.index, c.peer.Attr.SegSize)
	if cfg := w.configs[key]; cfg != nil {
		return cfg
	}
	a := c.iface.attr
	cfg := &epConfig{short: -1, maxBcopy: a.AM.MaxBcopy, maxIOV: max(a.AM.MaxIOV, a.Put.MaxIOV)}
	if a.Flags.Has(uct.IfaceAMZcopy) {
		cfg.maxZcopy = a.AM.MaxZcopy
	}
	if seg := c.peer.Attr.SegSize; seg > 0 {
		cfg.maxBcopy = min(cfg.maxBcopy, seg)
		cfg.maxZcopy = min(cfg.maxZcopy, seg)
	}
	if a.Flags.Has(uct.IfaceAMShort) {
		cfg.short = min(a.AM.MaxShort, cfg.maxBcopy) - proto.EagerOnlySize
	}
	cfg.put = a.Flags.Has(uct.IfacePutZcopy) && w.mds[c.iface.md].Attr().Flags&uct.MDFlagNeedRkey == 0 &&
		w.ctx.settings.RndvScheme != rndvSchemeAM
	cfg.putMax = a.Put.MaxZcopy
	cfg.zcopyFrom = w.ctx.settings.ZcopyThresh.Int(2048)
	cfg.rndvFrom = w.ctx.settings.RndvThresh.Inter.Int(128 << 10)
	cfg.rndvFast = w.ctx.settings.RndvThresh.Inter.Int(w.ctx.settings.RndvNbr.Int(256 << 10))
	cfg.short = min(cfg.short, cfg.rndvFrom-1)
	w.configs[key] = cfg
	return cfg
}

// tagProtocol chooses how a tagged message goes.
func (c *epConfig) tagProtocol(r *Request, attr OpFlags) *protocol {
	n := r.data.length
	rndv := c.rndvFrom
	if attr&OpFastComplete != 0 {
		rndv = c.rndvFast
	}
	if n >= rndv {
		return &rndvRTS
	}
	contig := r.data.class == DatatypeContig
	sync := r.state&stateSync != 0
	if contig && !sync && n <= c.short {
		return &eagerShort
	}
	zcopy := c.maxZcopy > 0 && n >= c.zcopyFrom && r.data.class != DatatypeGeneric
	head := proto.EagerOnlySize
	if sync {
		head = proto.EagerSyncOnlySize
	}
	switch {
	case zcopy && n+head <= c.maxZcopy && (contig || len(r.data.list) <= c.maxIOV):
		return &eagerZcopy
	case !zcopy && n+head <= c.maxBcopy:
		return &eagerBcopy
	}
	r.w.nextMessageID++
	r.msgID = r.w.nextMessageID
	if zcopy {
		return &eagerMultiZcopy
	}
	return &eagerMultiBcopy
}

// Explain says which lanes the endpoint uses and which protocol from which size,
// and why.
func (ep *Endpoint) Explain() string {
	return fmt.Sprintf("%+v", *ep.cfg)
}
