package ucp

import (
	"fmt"
	"io"

	"github.com/ucx-go/ucx/uct"
)

// WriteInfo lists the components of the library and the memory domains and transports of
// the context in the layout of ucx_info -p, followed by the transports that are not used,
// with the reasons.
func (c *Context) WriteInfo(w io.Writer) error {
	if c.missing() {
		return errMissing("Context.WriteInfo", c == nil)
	}
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
		flags := "--"
		if r.auxiliary {
			flags = "a-" // only for the wireup of others
		}
		ew.printf("#      resource %-2d :  md %-2d dev %-2d flags %s %s\n", i, r.md, devices[r.Device], flags, r)
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
