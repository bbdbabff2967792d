//go:build linux

package mlx5

import (
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs/internal/provider"
)

// Binds and invalidations are updates of a memory key (UMR; providers/mlx5/qp.c, set_bind_wr): a
// block of control segments, a block with the key, and for a bind a block with the one piece of
// memory. Each part begins at a block boundary, so an entry wraps around the end of the queue only
// between parts.

// umrBlock, mkeyBlock and klmBlock are the parts of an entry.
type (
	umrBlock struct {
		ctrl abi.Mlx5WqeCtrlSeg
		umr  abi.Mlx5WqeUmrCtrlSeg
	}
	mkeyBlock = abi.Mlx5WqeMkeyContextSeg
	klmBlock  struct {
		klm abi.Mlx5WqeUmrKlmSeg
		_   [48]uint8
	}
)

const (
	invalidateLen = 8  // length of an invalidation in units of 16 bytes
	bindLen       = 12 // length of a bind in units of 16 bytes
	noQPN         = 0xffffff00
)

// window is the part of Begin for binds and invalidations. It makes the next entry wait for this
// one, and sets the operation that the completion reports.
func (q *sendQueue) window(op provider.WROpcode, b *sent) {
	q.fence = waitsSmall
	if op == provider.WRBindMW {
		b.op = provider.WCBindMW // Bind writes the rest
		return
	}
	b.op = provider.WCLocalInv
	q.closeWindow(0)
}

// Bind writes the parameters of a bind into the open entry. With length 0 the entry invalidates the
// window's key instead.
func (q *sendQueue) Bind(b provider.Bind) error {
	if b.Length > provider.MaxLength {
		return provider.ErrTooLong
	}
	q.queue.umr(q.off).ctrl.Imm.Put(uint32(b.Old))
	if b.Length == 0 {
		q.closeWindow(uint32(b.New))
		return nil
	}
	u := &q.queue.umr(q.off).umr
	*u = abi.Mlx5WqeUmrCtrlSeg{Flags: abi.MLX5_WQE_UMR_CTRL_FLAG_INLINE | abi.MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | abi.MLX5_WQE_UMR_CTRL_FLAG_CHECK_FREE}
	u.KlmOctowords.Put(4)
	u.MkeyMask.Put(abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN |
		abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_LEN | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_START_ADDR |
		abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_LOCAL_WRITE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_READ |
		abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_REMOTE_WRITE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_ACCESS_ATOMIC)
	k := q.queue.mkey(q.off + blockSize)
	*k = mkeyBlock{AccessFlags: windowAccess(b.Access)}
	k.QpnMkey.Put(q.qpn<<8 | uint32(b.New)&0xff)
	if b.Access&abi.IB_UVERBS_ACCESS_ZERO_BASED == 0 {
		k.StartAddr.Put(b.Addr)
	}
	k.Len.Put(b.Length)
	m := q.queue.klm(q.off + 2*blockSize)
	*m = klmBlock{}
	m.klm.ByteCount.Put(uint32(b.Length))
	m.klm.Mkey.Put(uint32(b.LKey))
	m.klm.Address.Put(b.Addr)
	q.setLen(bindLen)
	return nil
}

// closeWindow makes the open entry invalidate the memory key in its control segment. The low 8 bits
// of the key become those of next.
func (q *sendQueue) closeWindow(next uint32) {
	u := &q.queue.umr(q.off).umr
	*u = abi.Mlx5WqeUmrCtrlSeg{Flags: abi.MLX5_WQE_UMR_CTRL_FLAG_INLINE | abi.MLX5_WQE_UMR_CTRL_FLAG_TRNSLATION_OFFSET | abi.MLX5_WQE_UMR_CTRL_FLAG_CHECK_QPN}
	u.MkeyMask.Put(abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_FREE | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_MKEY | abi.MLX5_WQE_UMR_CTRL_MKEY_MASK_QPN)
	k := q.queue.mkey(q.off + blockSize)
	*k = mkeyBlock{Free: abi.MLX5_WQE_MKEY_CONTEXT_FREE}
	k.QpnMkey.Put(noQPN | next&0xff)
	q.setLen(invalidateLen)
}

// windowAccess converts access flags of verbs to the access flags of a memory key.
func windowAccess(access uint32) (flags uint8) {
	for _, a := range [...]struct {
		verbs uint32
		flag  uint8
	}{
		{abi.IB_UVERBS_ACCESS_LOCAL_WRITE, abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_LOCAL_WRITE},
		{abi.IB_UVERBS_ACCESS_REMOTE_WRITE, abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_WRITE},
		{abi.IB_UVERBS_ACCESS_REMOTE_READ, abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_REMOTE_READ},
		{abi.IB_UVERBS_ACCESS_REMOTE_ATOMIC, abi.MLX5_WQE_MKEY_CONTEXT_ACCESS_FLAGS_ATOMIC},
	} {
		if access&a.verbs != 0 {
			flags |= a.flag
		}
	}
	return flags
}
