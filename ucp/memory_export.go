package ucp

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Export returns a handle for another process that uses the same device of a memory domain;
// that process passes it to MemMap (ucp_memh_pack with UCP_MEMH_PACK_FLAG_EXPORT). It fails
// with ucs.ErrUnsupported if no domain can export the memory (uct.Exporter), as with all
// domains of this library.
func (m *Memory) Export() ([]byte, error) {
	if m.missing() {
		return nil, errMissing("Memory.Export", m == nil)
	}
	if m.region == nil {
		return proto.ExportedMemory{}.Append(nil), nil
	}
	e := proto.ExportedMemory{MemType: m.memType.Wire(), Address: memoryAddress(m.buf), Length: uint64(len(m.buf))}
	for i, h := range m.handles {
		x, ok := m.ctx.mds[i].md.(uct.Exporter)
		if !ok || h == nil {
			continue
		}
		key, err := x.AppendExportedKey(nil, h)
		if err != nil {
			return nil, fmt.Errorf("ucp: exporting memory: %w", err)
		}
		e.MDMap |= 1 << i
		e.Keys = append(e.Keys, proto.ExportedKey{Key: key, GlobalID: []byte(m.ctx.mds[i].md.Attr().GlobalID)})
	}
	if e.MDMap == 0 {
		return nil, fmt.Errorf("ucp: exporting memory: %w", m.ctx.noExport())
	}
	return e.Append(nil), nil
}

// importFrom makes memory that another process has exported the handle's.
func (m *Memory) importFrom(e *proto.ExportedMemory) error {
	if e.Length > maxImport {
		return fmt.Errorf("ucp: importing %d bytes: %w", e.Length, ucs.ErrInvalidParam)
	}
	var failed error
	for _, k := range e.Keys {
		for i := range m.ctx.mds {
			md := m.ctx.mds[i].md
			x, ok := md.(uct.Exporter)
			if !ok || md.Attr().GlobalID != string(k.GlobalID) {
				continue
			}
			h, err := x.Import(k.Key, int(e.Length))
			if err == nil && uint64(len(h.Bytes())) != e.Length {
				err = errors.Join(errImported, md.Deregister(h))
			}
			if err == nil {
				m.handles[i], m.owner, m.buf, m.method = h, i, h.Bytes(), md.Attr().Name
				return nil
			}
			failed = errors.Join(failed, fmt.Errorf("%s: %w", md.Attr().Name, err))
		}
	}
	if failed == nil {
		failed = m.ctx.noExport()
	}
	return fmt.Errorf("ucp: importing memory: %w", failed)
}

// maxImport bounds what a handle may say that its memory has.
const maxImport = 1 << (30 + 16*(^uint(0)>>63)) // 2^46, and 2^30 where an int has 32 bits

var errImported = fmt.Errorf("the imported memory differs from the handle: %w", ucs.ErrUnsupported)

// exports reports whether memory can be exported and imported.
func (c *Context) exports() bool {
	for i := range c.mds {
		if _, ok := c.mds[i].md.(uct.Exporter); ok {
			return true
		}
	}
	return false
}

// noExport says why memory can neither be exported nor imported.
func (c *Context) noExport() error {
	if c.exports() {
		return fmt.Errorf("no memory domain that supports it has the memory or its device: %w", ucs.ErrUnsupported)
	}
	return fmt.Errorf("none of the %d memory domains supports it, a device with cross-process keys is needed: %w", len(c.mds), ucs.ErrUnsupported)
}
