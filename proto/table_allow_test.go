package proto

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// protocols lists the protocols in a table.
func protocols(t *Table) (list []Protocol) {
	for i := range t.upTo {
		list = append(list, t.proto[i])
		if t.upTo[i] == math.MaxInt {
			break
		}
	}
	return list
}

// TestAllowedProtocols checks that a protocol that the setting excludes is chosen only if no other
// can carry the message, and that the reasons say so.
func TestAllowedProtocols(t *testing.T) {
	without := func(s string) func(Protocol) bool {
		return func(p Protocol) bool { return !strings.Contains(p.String(), s) }
	}
	for _, tc := range []struct {
		name  string
		allow func(Protocol) bool
		never []Protocol
	}{
		{"no zero-copy", without("zcopy"), []Protocol{ProtoEagerZcopy, ProtoEagerMultiZcopy, ProtoRndvPut}},
		{"no rendezvous", without("rndv"), []Protocol{ProtoRndvAM, ProtoRndvPut, ProtoRndvGet, ProtoRndvPtr}},
		{"no short", without("short"), []Protocol{ProtoEagerShort}},
		{"nothing but zero-copy", func(p Protocol) bool { return p == ProtoEagerMultiZcopy }, []Protocol{ProtoEagerBcopy, ProtoEagerMultiBcopy, ProtoRndvPut}},
	} {
		in := tcpInput(func(in *ProtoInput) {
			in.Settings.Allow = tc.allow
			in.Settings.RndvThresh = ThreshAuto
		})
		tables := NewMessageTables(in, MessageForm{Only: 8, First: 24, Short: true})
		got := protocols(tables.Table(DataContig, 0))
		for _, p := range tc.never {
			if slices.Contains(got, p) {
				t.Errorf("%s: %v is chosen: %v", tc.name, p, got)
			}
		}
		if info := tables.Explain(DataContig, 0); !strings.Contains(info.String(), "not in UCX_PROTOS") {
			t.Errorf("%s: no reason in\n%s", tc.name, info.String())
		}
	}
	in := tcpInput(func(in *ProtoInput) { in.Settings.Allow = func(Protocol) bool { return false } })
	all := tcpInput()
	form := MessageForm{Only: 8, First: 24, Short: true}
	if got, want := protocols(NewMessageTables(in, form).Table(DataContig, 0)), protocols(NewMessageTables(all, form).Table(DataContig, 0)); !slices.Equal(got, want) {
		t.Errorf("where nothing is allowed %v are chosen, want %v", got, want)
	}
	access := &RMAInput{AM: tcpLane(), Lanes: []RMALane{posixRMALane()}, Settings: DefaultProtoSettings()}
	access.Settings.Allow = without("offload/short")
	if got := protocols(NewRMATables(access).Put(DataContig)); slices.Contains(got, ProtoPutShort) || !slices.Contains(got, ProtoPutBcopy) {
		t.Errorf("puts: %v", got)
	}
}

// TestRndvBias checks that rendezvous begins at shorter messages if the bias permits it to be
// slower.
func TestRndvBias(t *testing.T) {
	first := func(bias float64) int {
		in := tcpInput(func(in *ProtoInput) {
			in.AM.Bandwidth, in.Put[0].Bandwidth = 1<<30, 1<<30
			in.Settings.RndvBias = bias
		})
		return NewMessageTables(in, MessageForm{Only: 8, First: 24, Short: true}).Table(DataContig, 0).FirstRendezvous()
	}
	much, little, plain, against := first(0.02), first(0.01), first(0), first(-0.01)
	if !(much < little && little < plain && plain < against) {
		t.Errorf("rendezvous begins at %d, %d and %d bytes with a bias of 2%%, 1%% and none, and at %d with one against it", much, little, plain, against)
	}
	if got := first(math.NaN()); got != plain {
		t.Errorf("a bias that is no number: %d bytes, want %d", got, plain)
	}
}
