//go:build linux

package abi

import (
	"strings"
	"testing"
)

// TestTable checks that the tables are consistent.
func TestTable(t *testing.T) {
	for i := range Methods {
		m := &Methods[i]
		if Lookup(m.Object, m.ID) != m {
			t.Errorf("%s: there is another with its numbers", m.Name)
		}
		if m.Since == "" || strings.Count(m.Name, ".") != 1 {
			t.Errorf("%s, since %q: incomplete", m.Name, m.Since)
		}
		for j := range m.Attrs {
			a := &m.Attrs[j]
			if m.Attr(a.ID) != a {
				t.Errorf("%s: there is another attribute with the number of %s", m.Name, a.Name)
			}
			bytes := a.Kind == In || a.Kind == Out || a.Kind == Const
			if bytes != (a.Max > 0) || a.Min > a.Max || a.Type != nil && (a.Kind == Const || int(a.Type.Size()) != a.Max) {
				t.Errorf("%s.%s: %d to %d bytes of kind %v", m.Name, a.Name, a.Min, a.Max, a.Kind)
			}
		}
		if m.Object < driverSpace && ((m.Attr(UVERBS_ATTR_UHW_IN) != nil) != m.UHW || (m.Attr(UVERBS_ATTR_UHW_OUT) != nil) != m.UHW) {
			t.Errorf("%s: data of drivers: %v", m.Name, m.UHW)
		}
		if m.Attr(15) != nil || m.Attr(16) != nil || m.Attr(0xffff) != nil {
			t.Errorf("%s has attributes that nobody has listed", m.Name)
		}
	}
	for i := range Commands {
		c := &Commands[i]
		if LookupCommand(c.ID) != c {
			t.Errorf("%s: there is another with its number", c.Name)
		}
		if c.In == nil || c.In.Size()%4 != 0 {
			t.Errorf("%s: its request is %v", c.Name, c.In)
		}
	}
	if Lookup(UVERBS_OBJECT_PD, 77) != nil || LookupCommand(77) != nil {
		t.Error("something unknown is known")
	}
}
