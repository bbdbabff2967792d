package ucp

import (
	"fmt"
	"io"
	"strings"

	"github.com/ucx-go/ucx/internal/arena"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// WriteMemInfo allocates memory, prints where it was allocated and which domains registered
// it, and frees it (ucp_mem_print_info). spec is "<size>[,<type>]", for example "1m,host".
func (c *Context) WriteMemInfo(w io.Writer, spec string) error {
	if c.missing() {
		return errMissing("Context.WriteMemInfo", c == nil)
	}
	size, kind, _ := strings.Cut(spec, ",")
	var bytes config.Bytes
	if err := bytes.ParseConfig(size); err != nil {
		return fmt.Errorf("ucp: memory size %q: %w: %w", size, err, ucs.ErrInvalidParam)
	}
	n := bytes.Int(0)
	if n <= 0 {
		return fmt.Errorf("ucp: memory size %q: need more than 0 bytes: %w", size, ucs.ErrInvalidParam)
	}
	if kind != "" && kind != ucs.MemoryHost.String() {
		return fmt.Errorf("ucp: memory type %q: only host memory can be allocated: %w", kind, ucs.ErrInvalidParam)
	}
	m, err := c.MemMap(MemMapParams{Length: n, Flags: MemMapAllocate})
	if err != nil {
		return err
	}
	err = m.WriteInfo(w)
	if failed := m.Close(); err == nil {
		err = failed
	}
	return err
}

// WriteInfo prints the address of the memory, the domains that registered it and the length
// of its key, in the layout of ucx_info -m.
func (m *Memory) WriteInfo(w io.Writer) error {
	if m.missing() {
		return errMissing("Memory.WriteInfo", m == nil)
	}
	ew := errWriter{w: w}
	a := m.Attr()
	how := "registered"
	if m.method != "" {
		how = "allocated"
	}
	ew.printf("#\n# UCP memory allocation\n#\n")
	ew.printf("#  %s %v at address %#x", how, config.Bytes(a.Length), a.Address)
	if m.method != "" {
		ew.printf(" with %s", m.method)
	}
	smallest, largest := arena.PageSizes(m.buf)
	ew.printf(", pagesize: %v", config.Bytes(smallest))
	if smallest != largest {
		ew.printf("-%v", config.Bytes(largest))
	}
	ew.printf("\n#  registered on: ")
	for i, h := range m.handles {
		if h != nil {
			ew.printf("%s ", m.ctx.mds[i].md.Attr().Name)
		}
	}
	ew.printf("\n#\n")
	key, err := m.PackRkey()
	if err != nil {
		return err
	}
	ew.printf("#  rkey size: %d\n", len(key))
	return ew.err
}
