package proto

import (
	"fmt"
	"strings"
	"testing"
)

// TestNames checks that known values have names, that unknown values are printed as numbers, and
// that no value panics.
func TestNames(t *testing.T) {
	for _, tc := range []struct {
		v    fmt.Stringer
		want string
	}{
		{IDEagerOnly, "EAGER_ONLY"},
		{IDAMMiddlePSN, "AM_MIDDLE_PSN"},
		{IDToken, "TOKEN"},
		{IDEpClose, "EP_CLOSE"},
		{AMID(0), "AM id 0"},
		{AMID(200), "AM id 200"},
		{WireupRequest, "REQ"},
		{WireupLanesAddrReply, "LANES_ADDR_REP"},
		{WireupType(99), "wireup type 99"},
		{LaneRMABW, "rma_bw"},
		{LaneType(99), "lane type 99"},
		{ProtoEagerShort, "egr/short"},
		{Protocol(99), "protocol 99"},
		{DataIOV, "iov"},
		{DataClass(9), "data class 9"},
		{AddressV2, "v2"},
	} {
		if got := tc.v.String(); got != tc.want {
			t.Errorf("%T: %q, want %q", tc.v, got, tc.want)
		}
	}
	if got := Protocol(99).Description(); got != "protocol 99" {
		t.Errorf("description %q", got)
	}
	for p := ProtoNone; p < protoLast; p++ {
		if p.String() == "" || p.Description() == "" {
			t.Errorf("protocol %d has no name", uint8(p))
		}
	}
	if IDEagerOnly.Known() != true || AMID(IDLast).Known() || AMID(255).Known() {
		t.Error("Known is wrong")
	}
}

// TestNoTransportOfC checks that the ids of the transports that only this library has are not ids
// of transports of C UCX, so that peers of C UCX skip their entries.
func TestNoTransportOfC(t *testing.T) {
	own := map[TransportID]string{TransportIDOf("tls"): "tls", TransportToken: "token"}
	if len(own) != 2 || TransportToken != TransportIDOf("token") {
		t.Errorf("ids of this library's: %v", own)
	}
	for _, name := range strings.Fields(`self tcp posix sysv xpmem knem cma rc_verbs ud_verbs rc_mlx5 ud_mlx5 dc_mlx5
		gga_mlx5 srd rc_gda ugni_smsg ugni_udt ugni_rdma cuda_copy cuda_ipc gdr_copy rocm_copy rocm_ipc rocm_gdr
		ze_copy ze_ipc ze_gdr gaudi_gdr rdmacm sockcm tcp_sockcm`) {
		if mine, taken := own[TransportIDOf(name)]; taken {
			t.Errorf("%s has the id of %s", mine, name)
		}
	}
}

func TestErrorText(t *testing.T) {
	_, _, err := ParseEagerFirst(nil)
	if err.Error() != "eager first: shorter than its header" {
		t.Errorf("%q", err)
	}
	a := full()
	for _, part := range []string{"v1 uuid 0x1", "release 1.22", `name "host:1"`, "device 0: tcp md 70 paths 3", "eps 2"} {
		if s := a.String(); !strings.Contains(s, part) {
			t.Errorf("no %q in %s", part, s)
		}
	}
}
