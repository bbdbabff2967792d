//go:build linux

package mlx5

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

var route = abi.GlobalRoute{Dgid: [16]byte{0xfe, 0x80, 15: 0x42}, FlowLabel: 0x12345, SgidIndex: 3, HopLimit: 64, TrafficClass: 0x68}

// TestAddresses compares the address in send entries, for both link layers, with that of libmlx5.
func TestAddresses(t *testing.T) {
	ethernet := func(f *fake, _ *abi.Mlx5AllocUcontextResp) {
		f.ethernet, f.gidType = true, abi.IB_UVERBS_GID_TYPE_ROCE_V2
	}
	oldEthernet := func(f *fake, _ *abi.Mlx5AllocUcontextResp) {
		f.ethernet, f.gidType = true, abi.IB_UVERBS_GID_TYPE_ROCE_V1
	}
	local := func(*fake, *abi.Mlx5AllocUcontextResp) {}
	noFlow := route
	noFlow.FlowLabel = 0
	const gid = "fe800000 00000000 00000000 00000042"
	for _, c := range []struct {
		name string
		link func(*fake, *abi.Mlx5AllocUcontextResp)
		attr abi.AhAttr
		want string // after the key and the number
	}{
		{"InfiniBand", local, abi.AhAttr{Dlid: 0x17, Sl: 5, SrcPathBits: 0x83, StaticRate: 2},
			"75030017 00000000 00000000 00000000 00000000 | 00000000 00000000 00000000 00000000"},
		{"InfiniBand, routed", local, abi.AhAttr{Dlid: 0x17, Sl: 0xf, IsGlobal: 1, Grh: route, StaticRate: 200},
			"0f000017 00000000 00000000 00006840 40312345 |" + gid},
		{"RoCE v2", ethernet, abi.AhAttr{Dlid: 0x17, Sl: 0xd, SrcPathBits: 1, StaticRate: 10, IsGlobal: 1, Grh: route},
			"fa00e341 00000000 02000000 00096840 00312345 |" + gid},
		{"RoCE v2 without a label", ethernet, abi.AhAttr{IsGlobal: 1, Grh: noFlow},
			"0000d898 00000000 02000000 00096840 00300000 |" + gid},
		{"RoCE v1", oldEthernet, abi.AhAttr{IsGlobal: 1, Grh: route},
			"00000000 00000000 02000000 00096840 00312345 |" + gid},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := newContext(t, c.link)
			a := rc(newCQ(t, ctx, 10), 4, 1)
			a.Type = provider.UD
			q := newQP(t, a)
			c.attr.PortNum = 1
			h, err := ctx.NewAH(&c.attr)
			if err != nil {
				t.Fatal(err)
			}
			_, out := h.Data()
			copy(out, abi.Bytes(&abi.Mlx5CreateAhResp{ResponseLength: 10, Dmac: [6]byte{2, 0, 0, 0, 0, 9}}))
			if err := h.Attach(); err != nil {
				t.Fatal(err)
			}
			wr := provider.WR{Opcode: provider.WRSendWithImm, Flags: provider.SendSignaled, Imm: 7}
			q.Begin(&wr, nil)
			q.Gather(piece64)
			q.Address(h, 0x5000212, 0x11111111)
			q.Ring(0)
			wantWords(t, "entry", q.entry(0), "0000000b 00014105 00000008 00000007 | 11111111 00000000 80000212"+" "+c.want+"|"+data64)
			q.Begin(&wr, nil)
			q.Address(h, 0x212, 0x11111111)
			from, to := q.inlineRoom()
			copy(q.sends()[from:to], "abc")
			q.Ring(3)
			wantWords(t, "inline", q.entry(2)[64:], "80000003 61626300")
			h.Detach()
		})
	}
	ctx := newContext(t, ethernet)
	if _, err := ctx.NewAH(&abi.AhAttr{PortNum: 1, Dlid: 5}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("no GID on Ethernet: %v", err)
	}
	old := newContext(t, ethernet, func(_ *fake, a *abi.Mlx5AllocUcontextResp) { a.CmdsSuppUhw = 1 })
	h, err := old.NewAH(&abi.AhAttr{PortNum: 1, IsGlobal: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Attach(); !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("an old kernel: %v", err)
	}
}

// inlineRoom returns where the inline data of the open entry goes.
func (q *qp) inlineRoom() (from, to int) {
	at := (q.off+q.dataAt())&(q.size-1) + inlineHeader
	return int(at), int(min(at+q.inline, q.size))
}

// TestPorts checks that source UDP ports are in their range, and that the flow of a pair of queue
// pairs is the same in both directions.
func TestPorts(t *testing.T) {
	for flow := range uint32(1 << 20) {
		if p := sourcePort(flow); p < 0xc000 {
			t.Fatalf("flow %#x: port %#x", flow, p)
		}
	}
	if sourcePort(0x12345) != 0xc000|(0x12345&0x3fff^0x12345>>14) {
		t.Error("not what ibv_flow_label_to_udp_sport computes")
	}
	seen := map[uint32]bool{}
	for i := range uint32(100) {
		seen[flowOf(0x141+i, 0x212)] = true
	}
	if len(seen) < 90 || flowOf(5, 7) != flowOf(7, 5) {
		t.Errorf("%d flows of 100 pairs", len(seen))
	}
}
