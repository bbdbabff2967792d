//go:build linux

package tcp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// nlMessage builds a netlink message of a fixed part and attributes.
func nlMessage(typ uint16, fixed []byte, attrs ...nlAttr) []byte {
	b := make([]byte, unix.SizeofNlMsghdr)
	b = append(b, fixed...)
	for _, a := range attrs {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(a.value)))
		b = binary.NativeEndian.AppendUint16(b, a.typ)
		b = append(b, a.value...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], typ)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

type nlAttr struct {
	typ   uint16
	value []byte
}

func nl32(typ uint16, v uint32) nlAttr {
	return nlAttr{typ, binary.NativeEndian.AppendUint32(nil, v)}
}

func nlIP(typ uint16, s string) nlAttr { return nlAttr{typ, netip.MustParseAddr(s).AsSlice()} }

func route(family, bits byte, attrs ...nlAttr) []byte {
	rt := make([]byte, unix.SizeofRtMsg)
	rt[0], rt[1] = family, bits
	return nlMessage(unix.RTM_NEWROUTE, rt, attrs...)
}

func TestParseRoutes(t *testing.T) {
	var dump []byte
	for _, m := range [][]byte{
		route(unix.AF_INET, 0, nl32(unix.RTA_OIF, 2), nlIP(unix.RTA_GATEWAY, "192.0.2.1")),
		route(unix.AF_INET, 24, nlIP(unix.RTA_DST, "192.0.2.0"), nl32(unix.RTA_OIF, 2)),
		route(unix.AF_INET, 16, nlIP(unix.RTA_DST, "10.1.0.0"), nl32(unix.RTA_OIF, 3)),
		route(unix.AF_INET, 8, nlIP(unix.RTA_DST, "10.0.0.0")),             // several next hops: no device
		route(unix.AF_INET, 8, nl32(unix.RTA_OIF, 4)),                      // no destination
		route(unix.AF_INET, 40, nlIP(unix.RTA_DST, "9.0.0.0"), nl32(4, 5)), // absurd length
		route(unix.AF_INET6, 64, nlIP(unix.RTA_DST, "fd00::"), nl32(unix.RTA_OIF, 2)),
		route(unix.AF_INET6, 128, nlIP(unix.RTA_DST, "fd00::2"), nl32(unix.RTA_OIF, 2)),
	} {
		dump = append(dump, m...)
	}
	var table routeTable
	if err := table.parse(dump); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device int
		ip     string
		bits   int
	}{
		{2, "192.0.2.9", 24}, {2, "1.2.3.4", 0}, {3, "10.1.2.3", 16}, {3, "10.2.0.1", -1},
		{2, "fd00::2", 128}, {2, "fd00::3", 64}, {2, "fd01::3", -1}, {3, "fd00::2", -1}, {9, "1.2.3.4", -1},
	} {
		if got := table.match(c.device, netip.MustParseAddr(c.ip)); got != c.bits {
			t.Errorf("device %d to %s: prefix of %d, want %d", c.device, c.ip, got, c.bits)
		}
	}
	if !table.best(3, netip.MustParseAddr("10.1.2.3")) || table.best(2, netip.MustParseAddr("10.1.2.3")) {
		t.Error("the longest prefix does not win")
	}
	for n := range len(dump) {
		(&routeTable{}).parse(dump[:n]) // must not panic
	}
}

func TestReadRoutes(t *testing.T) {
	table := readRoutes()
	lo, err := unixIndex("lo")
	if err != nil {
		t.Fatal(err)
	}
	if !table.best(lo, netip.MustParseAddr("127.0.0.1")) {
		t.Error("lo has no route to 127.0.0.1")
	}
}
