//go:build linux

package verbstest

import "github.com/ucx-go/ucx/uct/ib/internal/abi"

// Decoding of entries that change keys: they bind memory windows, or invalidate the key of one
// (prov/qp.c, set_bind_wr).

// These masks name the fields of a memory key that a work queue entry changes. maskKey is set in all
// entries, maskQPN for windows of type 2, and maskBind if a window is bound.
const (
	maskKey  = abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE
	maskQPN  = abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN
	maskBind = abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
		abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
		abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC
)

// window decodes the segments of an entry that changes a key.
func (p *parse) window() {
	const keyContext = 64 // bytes of each segment after the first
	var c abi.Mlx5WqeUmrCtrlSeg
	var m abi.Mlx5WqeMkeyContextSeg
	copy(raw(&c), p.next(len(raw(&c)), "control segment of keys"))
	copy(raw(&m), p.next(keyContext, "key"))
	p.zero(c.Rsvd0[:], "control segment of keys")
	p.zero(c.Rsvd1[:], "control segment of keys")
	p.zero(c.TranslationOffset[:], "control segment of keys")
	w, b := p.w, &p.w.bind
	key, owner := m.QpnMkey.Get()&0xff, m.QpnMkey.Get()>>8
	mask, octo := c.MkeyMask.Get(), c.KlmOctowords.Get()
	flags := uint8(abi.MLX5_WQE_UMR_CTRL_FLAG_INLINE | abi.MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET)
	want := uint64(maskKey)
	b.typ = 1
	if mask&maskQPN != 0 {
		b.typ = 2
		want |= maskQPN
	}
	b.window, b.key = w.ex, w.ex&^0xff|key
	if octo == 0 {
		if b.typ == 2 {
			flags |= abi.MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN
		}
		w.op = abi.IB_UVERBS_WR_BIND_MW
		if b.typ == 2 {
			w.op = abi.IB_UVERBS_WR_LOCAL_INV
		}
		if m.Free != abi.MLX5_WQE_MKEY_CONTEXT_FREE || owner != 1<<24-1 {
			p.fail("invalidation of a key with invalid free field %#x or QP %#x", m.Free, owner)
		}
	} else {
		if b.typ == 2 {
			flags |= abi.MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE
		}
		want |= maskBind
		w.op = abi.IB_UVERBS_WR_BIND_MW
		var k abi.Mlx5WqeUmrKlmSeg
		rest := p.next(keyContext, "place of memory")
		copy(raw(&k), rest)
		p.zero(rest[len(raw(&k)):], "place of memory")
		b.lkey, b.addr, b.start, b.length = k.Mkey.Get(), k.Address.Get(), m.StartAddr.Get(), m.Len.Get()
		b.access = windowAccess(m.AccessFlags)
		if octo != 4 || m.Free != 0 || uint64(k.ByteCount.Get()) != b.length {
			p.fail("invalid bind: %d octowords, free field %#x, lengths %#x and %#x", octo, m.Free, k.ByteCount.Get(), b.length)
		}
		if b.typ == 1 && owner != 1<<24-1 || b.typ == 2 && owner != p.s.q.num {
			p.fail("a window of type %d is bound for QP %#x", b.typ, owner)
		}
	}
	if c.Flags != flags || mask != want {
		p.fail("flags %#x and mask %#x, expected %#x and %#x", c.Flags, mask, flags, want)
	}
}

// accessBits maps the access flags of an mlx5 key to those of the kernel's core, IB_UVERBS_ACCESS.
var accessBits = [...]struct {
	key  uint8
	core uint32
}{
	{abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE, abi.IB_UVERBS_ACCESS_LOCAL_WRITE},
	{abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ, abi.IB_UVERBS_ACCESS_REMOTE_READ},
	{abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE, abi.IB_UVERBS_ACCESS_REMOTE_WRITE},
	{abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC, abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC},
}

// windowAccess converts the access flags of an mlx5 key to those of the kernel's core.
func windowAccess(flags uint8) (access uint32) {
	for _, a := range accessBits {
		if flags&a.key != 0 {
			access |= a.core
		}
	}
	return access
}
