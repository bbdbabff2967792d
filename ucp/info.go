package ucp

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// WriteInfo lists the components of the library and the memory domains and
// transports of the context in the layout of ucx_info -p, and then what is not
// used and why.
func (c *Context) WriteInfo(w io.Writer) error {
	ew := errWriter{w: w}
	ew.printf("#\n# UCP context\n#\n")
	numbers := make(map[string]int)
	for i, comp := range uct.Components() {
		numbers[comp.Name()] = i
		ew.printf("#     component %-2d :  %s\n", i, comp.Name())
	}
	ew.printf("#\n")
	for i, m := range c.mds {
		ew.printf("#            md %-2d :  component %-2d %s \n", i, numbers[m.component.Name()], m.md.Attr().Name)
	}
	ew.printf("#\n")
	devices := make(map[string]int) // as C counts them, by name
	for i, r := range c.resources {
		if _, ok := devices[r.Device]; !ok {
			devices[r.Device] = len(devices)
		}
		// No transport is only for wireup: the first flag is never set.
		ew.printf("#      resource %-2d :  md %-2d dev %-2d flags -- %s\n", i, r.md, devices[r.Device], r)
	}
	ew.printf("#\n")
	for _, s := range c.skipped {
		ew.printf("#      not used    :  %s\n", s)
	}
	if len(c.skipped) > 0 {
		ew.printf("#\n")
	}
	return ew.err
}

// printTables prints what write writes to the log, as UCX_PRINT_TRANSPORT_TABLES says.
func (c *Context) printTables(write func(io.Writer) error) {
	switch c.settings.PrintTables {
	case config.OnOffAutomatic:
		if !log.Enabled(log.LevelDebug) {
			return
		}
	case config.Off:
		return
	}
	var b strings.Builder
	_ = write(&b) // a builder takes it all
	for line := range strings.Lines(b.String()) {
		log.Print(strings.TrimSuffix(line, "\n"))
	}
}

// errWriter keeps the first error of a series of prints.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

// WriteInfo prints the worker's name, the size of its address and the interfaces
// that do atomics by themselves in the layout of ucx_info -w, and then the
// interfaces that could not be opened.
func (w *Worker) WriteInfo(out io.Writer) error {
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
// ucx_info -e.
func (ep *Endpoint) WriteInfo(w io.Writer) error {
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
	ew.printf("#\n# UCP endpoint %s\n#\n", e.Endpoint)
	ew.printf("#               peer: uuid %#x\n", e.Peer)
	for _, l := range e.Lanes {
		ew.printf("#                 %s\n", l)
	}
	ew.printf("#\n")
	if !ep.w.tag.on {
		return b.Bytes()
	}
	owner := ep.w.ctx.name + " " + ep.placement()
	for _, t := range ep.cfg.explain(ep.w, ep) {
		for _, l := range t.Lines(owner) {
			ew.printf("# %s\n", l)
		}
	}
	return b.Bytes()
}

// placement says where the peer is, as far as the lane for messages tells.
func (ep *Endpoint) placement() string {
	if len(ep.lanes) > 0 {
		switch ep.lanes[ep.amLane()].iface.attr.Resource.Type {
		case uct.DeviceSelf:
			return "self"
		case uct.DeviceShared:
			return "intra-node"
		}
	}
	return "inter-node"
}
