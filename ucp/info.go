package ucp

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// WriteInfo prints the worker's name, the size of its address and the interfaces with
// hardware atomics in the layout of ucx_info -w, followed by the interfaces that could not
// be opened.
func (w *Worker) WriteInfo(out io.Writer) error {
	if w.missing() {
		return errMissing("Worker.WriteInfo", w == nil)
	}
	w.look()
	text, err := w.info()
	w.unlook()
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

func (w *Worker) info() ([]byte, error) {
	if err := w.packAddress(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	ew := errWriter{w: &b}
	ew.printf("#\n# UCP worker '%s'\n#\n", w.name)
	ew.printf("#                 address: %d bytes\n", len(w.address))
	if w.ctx.params.Features&(FeatureAMO32|FeatureAMO64) != 0 {
		var list []string
		for _, i := range w.ifaces {
			if proto.Caps(i.attr)&(proto.CapAtomic32|proto.CapAtomic64) != 0 {
				list = append(list, fmt.Sprintf("%d:%s", i.index, i.attr.Resource))
			}
		}
		ew.printf("#                 atomics: %s\n", strings.Join(list, ", "))
	}
	ew.printf("#\n")
	for _, s := range w.unopened {
		ew.printf("#                not used: %s\n", s)
	}
	if len(w.unopened) > 0 {
		ew.printf("#\n")
	}
	return b.Bytes(), nil
}

// WriteInfo prints the lanes and protocols of the endpoint in the layout of
// ucx_info -e of a release build of C UCX, which has neither a name of the endpoint nor of the
// peer, and behind them the endpoint's name and the peer's number.
func (ep *Endpoint) WriteInfo(w io.Writer) error {
	if ep.missing() {
		return errMissing("Endpoint.WriteInfo", ep == nil)
	}
	ep.w.look()
	text := ep.info()
	ep.w.unlook()
	_, err := w.Write(text)
	return err
}

func (ep *Endpoint) info() []byte {
	e := ep.explain()
	var b bytes.Buffer
	ew := errWriter{w: &b}
	ew.printf("#\n# UCP endpoint \n#\n")
	ew.printf("#               peer: <no debug data>\n")
	lanes := e.Lanes
	if c := ep.conn(); c != nil && len(lanes) > 0 { // which C, and the peer, count as lane 0
		lanes = append([]string{"lane[0]: cm " + ep.w.conns.managers[c.manager].name}, ep.cfg.chosen.LinesFrom(1)...)
	}
	for _, l := range lanes {
		ew.printf("#                 %s\n", l)
	}
	ew.printf("#\n")
	if ep.w.tag.on {
		owner := ep.w.ctx.name + " " + ep.placement()
		for _, t := range ep.cfg.explain(ep.w, ep) {
			for _, l := range t.Lines(owner) {
				ew.printf("# %s\n", l)
			}
		}
	}
	ew.printf("#           endpoint: %s\n#          peer uuid: %#x\n#\n", e.Endpoint, e.Peer)
	return b.Bytes()
}

// placement says where the peer is: in the same worker, else on this host if a lane does not
// leave it.
func (ep *Endpoint) placement() string {
	if ep.peer == nil || ep.peer.uuid == ep.w.uuid {
		return "self"
	}
	for i := range ep.lanes {
		if ep.lanes[i].iface.attr.Resource.Type != uct.DeviceNetwork {
			return "intra-node"
		}
	}
	return "inter-node"
}
