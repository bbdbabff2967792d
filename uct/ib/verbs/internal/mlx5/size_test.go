//go:build linux

package mlx5

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// TestLayout compares the sizes with those that libmlx5 44.0 computes.
func TestLayout(t *testing.T) {
	m := newContext(t).limits
	for _, c := range []struct {
		typ    provider.QPType
		shared bool
		ask    provider.QPCap
		want   layout
	}{
		{provider.RC, false, provider.QPCap{MaxSendWR: 4, MaxRecvWR: 1, MaxSendSGE: 2, MaxRecvSGE: 3, MaxInline: 200},
			layout{blocks: 32, posts: 4, inline: 252, pieces: 2, receives: 1, recvShift: 6, recvPieces: 4}},
		{provider.RC, false, provider.QPCap{MaxSendWR: 1, MaxSendSGE: 1}, layout{blocks: 4, posts: 1, inline: 60, pieces: 1}},
		{provider.UC, false, provider.QPCap{MaxSendWR: 100, MaxRecvWR: 100, MaxSendSGE: 1, MaxRecvSGE: 1},
			layout{blocks: 512, posts: 128, inline: 60, pieces: 1, receives: 128, recvShift: 4, recvPieces: 1}},
		{provider.UD, false, provider.QPCap{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 4, MaxRecvSGE: 1},
			layout{blocks: 8, posts: 4, inline: 60, pieces: 4, receives: 4, recvShift: 4, recvPieces: 1}},
		{provider.UD, true, provider.QPCap{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 5}, layout{blocks: 16, posts: 5, inline: 124, pieces: 5}},
		{provider.RC, true, provider.QPCap{MaxRecvWR: 5, MaxInline: 9}, layout{}},
		{provider.RC, false, provider.QPCap{MaxSendWR: 8192, MaxSendSGE: 1}, layout{blocks: 32768, posts: 8192, inline: 60, pieces: 1}},
		{provider.RC, false, provider.QPCap{MaxSendWR: 1, MaxSendSGE: 51}, layout{blocks: 16, posts: 1, inline: 828, pieces: 51}},
		{provider.RC, false, provider.QPCap{MaxSendWR: 1, MaxSendSGE: 1, MaxInline: 61}, layout{blocks: 8, posts: 1, inline: 124, pieces: 1}},
	} {
		a := &provider.QPInit{Type: c.typ, Cap: c.ask}
		if c.shared {
			a.SRQ = &srq{}
		}
		if got, err := m.layOut(a); err != nil || got != c.want {
			t.Errorf("%v, %+v:\n%+v, want\n%+v: %v", c.typ, c.ask, got, c.want, err)
		}
	}
	for what, c := range map[string]provider.QPCap{
		"sends":          {MaxSendWR: 8193, MaxSendSGE: 1},
		"very many":      {MaxSendWR: 1<<31 - 1, MaxSendSGE: 1},
		"pieces":         {MaxSendWR: 1, MaxSendSGE: 52},
		"inline":         {MaxSendWR: 1, MaxInline: 813},
		"receives":       {MaxRecvWR: 32769, MaxRecvSGE: 1},
		"receive pieces": {MaxRecvWR: 1, MaxRecvSGE: 33},
	} {
		if l, err := m.layOut(&provider.QPInit{Type: provider.RC, Cap: c}); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %+v: %v", what, l, err)
		}
	}
}

func TestLayoutShared(t *testing.T) {
	m := newContext(t).limits
	for _, c := range []struct {
		ask  provider.SRQInit
		want shared
	}{
		{provider.SRQInit{MaxWR: 1, MaxSGE: 1}, shared{2, 5, 1}},
		{provider.SRQInit{MaxWR: 7, MaxSGE: 0}, shared{8, 5, 1}},
		{provider.SRQInit{MaxWR: 8, MaxSGE: 2}, shared{16, 6, 3}},
		{provider.SRQInit{MaxWR: 32767, MaxSGE: 31}, shared{32768, 9, 31}},
	} {
		if got, err := m.layOutShared(&c.ask); err != nil || got != c.want {
			t.Errorf("%+v: %+v, want %+v: %v", c.ask, got, c.want, err)
		}
	}
	for _, ask := range []provider.SRQInit{{MaxWR: 32768}, {MaxWR: 1, MaxSGE: 32}} {
		if _, err := m.layOutShared(&ask); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%+v: %v", ask, err)
		}
	}
	for cqe, want := range map[int]uint32{1: 2, 2: 4, 3: 4, 4: 8, 1<<24 - 1: 1 << 24} {
		if n, err := completions(cqe); n != want || err != nil {
			t.Errorf("%d completions: %d, want %d: %v", cqe, n, want, err)
		}
	}
	for _, cqe := range []int{0, 1 << 24, 1 << 31 >> 1} {
		if _, err := completions(cqe); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%d completions: %v", cqe, err)
		}
	}
}

// TestNumbers checks that freed numbers are reused, and that a table accepts any number.
func TestNumbers(t *testing.T) {
	var n numbers
	a, _ := n.take()
	b, _ := n.take()
	n.put(a)
	if c, ok := n.take(); a != 0 || b != 1 || c != a || !ok {
		t.Errorf("%d, %d, %d", a, b, c)
	}
	n.next = maxNumber
	if v, ok := n.take(); ok {
		t.Errorf("%#x given out", v)
	}
	var tab table[qp]
	q := &qp{}
	for _, v := range []uint32{0, 0xfff, 0x1000, 0xffffff} {
		tab.set(v, q)
		if tab.find(v) != q || tab.find(v^0x10) != nil || tab.find(v^0x10000) != nil {
			t.Errorf("%#x is not found, or others are", v)
		}
		tab.set(v, nil)
		if tab.find(v) != nil {
			t.Errorf("%#x is still found", v)
		}
	}
	tab.find(0xffffffff)
}
