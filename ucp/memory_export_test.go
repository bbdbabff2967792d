package ucp

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// exporting is a memory domain that exports memory under a number, which is the key.
type exporting struct {
	uct.MemoryDomain
	uct.NoDeviceMemory
	attr uct.MDAttr
	open *[]uct.MemHandle // exported memory, indexed by key
	cut  int              // bytes by which imported memory is too short
}

func (d *exporting) Attr() *uct.MDAttr { return &d.attr }

// RkeyValue implements uct.DeviceMemory.
func (d *exporting) RkeyValue([]byte) (uint64, error) { return 0, ucs.ErrUnsupported }

func (d *exporting) AppendExportedKey(b []byte, m uct.MemHandle) ([]byte, error) {
	*d.open = append(*d.open, m)
	return append(b, byte(len(*d.open)-1)), nil
}

func (d *exporting) ImportKey(key []byte, length int) (uct.MemHandle, error) {
	if len(key) != 1 || int(key[0]) >= len(*d.open) {
		return nil, ucs.ErrInvalidParam
	}
	m := (*d.open)[key[0]].Bytes()
	return d.Register(m[:min(length, len(m))-d.cut], 0)
}

// exporters returns two contexts whose first memory domain can export and import memory.
func exporters(t *testing.T) (from, to *Context, domain *exporting) {
	t.Helper()
	var open []uct.MemHandle
	wrap := func(id string) (*Context, *exporting) {
		c := targetContext(t)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		d := &exporting{MemoryDomain: c.mds[0].md, attr: *c.mds[0].md.Attr(), open: &open}
		d.attr.GlobalID = id
		d.attr.Flags |= uct.MDFlagExportedMkey
		c.mds[0].md = d
		return c, d
	}
	from, _ = wrap("device 7")
	to, domain = wrap("device 7")
	return from, to, domain
}

// TestExportedMemory checks that imported memory is the exported memory, and that the importer can
// pack a remote key of it for peers.
func TestExportedMemory(t *testing.T) {
	from, to, _ := exporters(t)
	own := make([]byte, 100)
	m, err := from.Register(own, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	packed, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	if e, n, err := proto.ParseExportedMemory(packed); err != nil || n != len(packed) || e.MDMap != 1 || e.Length != 100 ||
		e.Address != m.Attr().Address || string(e.Keys[0].GlobalID) != "device 7" {
		t.Errorf("exported as %+v, %v", e, err)
	}
	i, err := to.MemMap(MemMapParams{Exported: packed})
	if err != nil {
		t.Fatal(err)
	}
	i.Bytes()[99] = 7
	if own[99] != 7 || i.Attr().Length != 100 {
		t.Errorf("imported %d bytes of other memory", i.Attr().Length)
	}
	if key, err := i.PackRkey(); err != nil || len(key) == 0 {
		t.Errorf("its key: %x, %v", key, err)
	}
	if err := i.Close(); err != nil {
		t.Error(err)
	}
}

// TestImportRefused checks that importing an exported handle with false or inconsistent contents is
// refused.
func TestImportRefused(t *testing.T) {
	from, to, domain := exporters(t)
	m, err := from.Register(make([]byte, 100), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	packed, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*proto.ExportedMemory){
		"another device":     func(e *proto.ExportedMemory) { e.Keys[0].GlobalID = []byte("device 8") },
		"no key":             func(e *proto.ExportedMemory) { e.Keys, e.MDMap = nil, 0 },
		"unknown key":        func(e *proto.ExportedMemory) { e.Keys[0].Key = []byte{9} },
		"more than there is": func(e *proto.ExportedMemory) { e.Length = 101 },
		"an absurd length":   func(e *proto.ExportedMemory) { e.Length = 1 << 63 },
	} {
		e, _, err := proto.ParseExportedMemory(packed)
		if err != nil {
			t.Fatal(err)
		}
		edit(&e)
		if i, err := to.MemMap(MemMapParams{Exported: e.Append(nil)}); i != nil || !errors.Is(err, ucs.ErrUnsupported) && !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", name, err)
		}
	}
	domain.cut = 1
	if i, err := to.MemMap(MemMapParams{Exported: packed}); i != nil || !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("less than there is: %v", err)
	}
	if n := len(to.memories); n != 0 {
		t.Errorf("%d handles are left", n)
	}
}
