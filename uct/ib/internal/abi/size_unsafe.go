//go:build linux

package abi

// Soundness: unsafe.Sizeof is evaluated by the compiler, and Bytes is a view of a
// struct of this package: plain numbers without pointers, so every byte may be
// read and written. The slice keeps the struct alive.

import "unsafe"

// Each line fails to compile if the struct does not have the size it has in C.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(IoctlHdr{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(Attr{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(CmdHdr{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(AsyncEventDesc{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(CompEventDesc{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(GidEntry{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(AllocPd{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(AllocPdResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(RegMr{})-40]
	_ = [1]struct{}{}[unsafe.Sizeof(RegMrResp{})-12]
	_ = [1]struct{}{}[unsafe.Sizeof(ReregMr{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(ReregMrResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateCompChannel{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateCompChannelResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(ResizeCq{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(ResizeCqResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(ReqNotifyCq{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(DestroyCqResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Wc{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(ModifySrq{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(QuerySrq{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(QuerySrqResp{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(DestroySrqResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(GlobalRoute{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(AhAttr{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateAh{})-56]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateAhResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(AttachMcast{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(PostSend{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(PostSendResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(AllocMw{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(AllocMwResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeMwWr{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryDevice{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryDeviceResp{})-176]
	_ = [1]struct{}{}[unsafe.Sizeof(ExQueryDevice{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(OdpCaps{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(RssCaps{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(TmCaps{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(CqModerationCaps{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(ExQueryDeviceResp{})-304]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryPortResp{})-40]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryPortRespEx{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(QpCap{})-20]
	_ = [1]struct{}{}[unsafe.Sizeof(QpDest{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(ModifyQp{})-112]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryQp{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryQpResp{})-128]
	_ = [1]struct{}{}[unsafe.Sizeof(DestroyQpResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(Mminfo{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeCreateCqResp{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeCreateQpResp{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeCreateSrqResp{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeModifySrqCmd{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeCreateAhResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeQueueBuf{})-384]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeSge{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeDmaInfo{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeSendWr{})-144]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeRdmaWr{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeAtomicWr{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeUdWr{})-120]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeSendWqe{})-208]
	_ = [1]struct{}{}[unsafe.Sizeof(RxeRecvWqe{})-40]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5AllocUcontextReqV2{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5AllocUcontextResp{})-72]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5AllocPdResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateCq{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateCqResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5ResizeCq{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateSrq{})-32]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateSrqResp{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateQp{})-56]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateQpResp{})-40]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5CreateAhResp{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5AllocMw{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeCtrlSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeAv{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeRaddrSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeAtomicSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeDataSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeInlDataSeg{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeSrqNextSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeUmrCtrlSeg{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeMkeyContextSeg{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5WqeUmrKlmSeg{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5Cqe64{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(Mlx5ErrCqe{})-64]
)

// Struct lists the structs of this package that are passed to the kernel, or returned by it, as a
// whole.
type Struct interface {
	IoctlHdr |
		Attr |
		CmdHdr |
		AsyncEventDesc |
		CompEventDesc |
		GidEntry |
		AllocPd |
		AllocPdResp |
		RegMr |
		RegMrResp |
		ReregMr |
		ReregMrResp |
		CreateCompChannel |
		CreateCompChannelResp |
		ResizeCq |
		ResizeCqResp |
		ReqNotifyCq |
		DestroyCqResp |
		Wc |
		ModifySrq |
		QuerySrq |
		QuerySrqResp |
		DestroySrqResp |
		GlobalRoute |
		AhAttr |
		CreateAh |
		CreateAhResp |
		AttachMcast |
		PostSend |
		PostSendResp |
		AllocMw |
		AllocMwResp |
		RxeMwWr |
		QueryDevice |
		QueryDeviceResp |
		ExQueryDevice |
		OdpCaps |
		RssCaps |
		TmCaps |
		CqModerationCaps |
		ExQueryDeviceResp |
		QueryPortResp |
		QueryPortRespEx |
		QpCap |
		QpDest |
		ModifyQp |
		QueryQp |
		QueryQpResp |
		DestroyQpResp |
		Mminfo |
		RxeCreateCqResp |
		RxeCreateQpResp |
		RxeCreateSrqResp |
		RxeModifySrqCmd |
		RxeCreateAhResp |
		RxeQueueBuf |
		RxeSge |
		RxeDmaInfo |
		RxeSendWr |
		RxeRdmaWr |
		RxeAtomicWr |
		RxeUdWr |
		RxeSendWqe |
		RxeRecvWqe |
		Mlx5AllocUcontextReqV2 |
		Mlx5AllocUcontextResp |
		Mlx5AllocPdResp |
		Mlx5CreateCq |
		Mlx5CreateCqResp |
		Mlx5ResizeCq |
		Mlx5CreateSrq |
		Mlx5CreateSrqResp |
		Mlx5CreateQp |
		Mlx5CreateQpResp |
		Mlx5CreateAhResp |
		Mlx5AllocMw
}

// Bytes returns the memory of a struct.
func Bytes[T Struct](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
