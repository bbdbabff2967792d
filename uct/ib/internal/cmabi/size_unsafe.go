//go:build linux

package cmabi

// Soundness: unsafe.Sizeof is evaluated by the compiler, and Bytes is a view of a
// struct of this package: plain numbers without pointers, so every byte may be
// read and written. The slice keeps the struct alive.

import "unsafe"

// Each line fails to compile if the struct does not have the size it has in C.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(CmdHdr{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateId{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(CreateIdResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(DestroyId{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(DestroyIdResp{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(Bind{})-136]
	_ = [1]struct{}{}[unsafe.Sizeof(ResolveAddr{})-272]
	_ = [1]struct{}{}[unsafe.Sizeof(ResolveRoute{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Query{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryAddrResp{})-280]
	_ = [1]struct{}{}[unsafe.Sizeof(UserPathRec{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(QueryRouteResp{})-208]
	_ = [1]struct{}{}[unsafe.Sizeof(ConnParam{})-272]
	_ = [1]struct{}{}[unsafe.Sizeof(UdParam{})-304]
	_ = [1]struct{}{}[unsafe.Sizeof(Ece{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Connect{})-288]
	_ = [1]struct{}{}[unsafe.Sizeof(Listen{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(Accept{})-296]
	_ = [1]struct{}{}[unsafe.Sizeof(Reject{})-264]
	_ = [1]struct{}{}[unsafe.Sizeof(Disconnect{})-4]
	_ = [1]struct{}{}[unsafe.Sizeof(InitQpAttr{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(QpAttr{})-144]
	_ = [1]struct{}{}[unsafe.Sizeof(Notify{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(JoinMcast{})-152]
	_ = [1]struct{}{}[unsafe.Sizeof(GetEvent{})-8]
	_ = [1]struct{}{}[unsafe.Sizeof(EventResp{})-336]
	_ = [1]struct{}{}[unsafe.Sizeof(SetOption{})-24]
	_ = [1]struct{}{}[unsafe.Sizeof(MigrateId{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(MigrateResp{})-4]
)

// Struct lists the structs of this package.
type Struct interface {
	CmdHdr |
		CreateId |
		CreateIdResp |
		DestroyId |
		DestroyIdResp |
		Bind |
		ResolveAddr |
		ResolveRoute |
		Query |
		QueryAddrResp |
		UserPathRec |
		QueryRouteResp |
		ConnParam |
		UdParam |
		Ece |
		Connect |
		Listen |
		Accept |
		Reject |
		Disconnect |
		InitQpAttr |
		QpAttr |
		Notify |
		JoinMcast |
		GetEvent |
		EventResp |
		SetOption |
		MigrateId |
		MigrateResp
}

// Bytes returns the memory of a struct.
func Bytes[T Struct](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}
