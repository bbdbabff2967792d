package main

import (
	"slices"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// operation is an operation of an interface, with its limits in bytes.
type operation struct {
	name    string
	min     int
	max     int
	iov     bool // takes a list of at most maxIOV entries
	maxIOV  int
	details []detail
}

// detail is a further limit of an operation.
type detail struct {
	label string // name in the output of C's tool
	key   string // name in JSON
	value int
}

// operations lists the send operations of an interface, in the order of C's tool.
func operations(a *uct.IfaceAttr) []operation {
	var list []operation
	plain := func(flag uct.IfaceFlags, name string, max int) {
		if a.Flags.Has(flag) {
			list = append(list, operation{name: name, max: max})
		}
	}
	zcopy := func(flag uct.IfaceFlags, name string, min, max, maxIOV int, details ...detail) {
		if a.Flags.Has(flag) {
			list = append(list, operation{name: name, min: min, max: max, iov: true, maxIOV: maxIOV, details: details})
		}
	}
	alignment := func(prefix string, zcopy, mtu int) []detail {
		return []detail{
			{prefix + "_opt_zcopy_align", "align", zcopy},
			{prefix + "_align_mtu", "mtu_align", mtu},
		}
	}

	plain(uct.IfacePutShort, "put_short", a.Put.MaxShort)
	plain(uct.IfacePutBcopy, "put_bcopy", a.Put.MaxBcopy)
	zcopy(uct.IfacePutZcopy, "put_zcopy", a.Put.MinZcopy, a.Put.MaxZcopy, a.Put.MaxIOV,
		alignment("put", a.Put.OptZcopyAlign, a.Put.AlignMTU)...)

	plain(uct.IfaceGetShort, "get_short", a.Get.MaxShort)
	plain(uct.IfaceGetBcopy, "get_bcopy", a.Get.MaxBcopy)
	zcopy(uct.IfaceGetZcopy, "get_zcopy", a.Get.MinZcopy, a.Get.MaxZcopy, a.Get.MaxIOV,
		alignment("get", a.Get.OptZcopyAlign, a.Get.AlignMTU)...)

	plain(uct.IfaceAMShort, "am_short", a.AM.MaxShort)
	plain(uct.IfaceAMBcopy, "am_bcopy", a.AM.MaxBcopy)
	zcopy(uct.IfaceAMZcopy, "am_zcopy", a.AM.MinZcopy, a.AM.MaxZcopy, a.AM.MaxIOV,
		append(alignment("am", a.AM.OptZcopyAlign, a.AM.AlignMTU), detail{"am header", "max_header", a.AM.MaxZcopyHdr})...)

	return list
}

// atomic is an atomic operation and its operand sizes in bits.
type atomic struct {
	name string
	bits []int
}

// atomics lists the atomic operations of an interface, in the order of C's tool: those without a
// result first.
func atomics(a *uct.IfaceAttr) []atomic {
	post := []struct {
		op   uct.AtomicOp
		name string
	}{{uct.AtomicAdd, "add"}, {uct.AtomicAnd, "and"}, {uct.AtomicOr, "or"}, {uct.AtomicXor, "xor"}}
	var list []atomic
	add := func(op uct.AtomicOp, name string, ops32, ops64 uint32) {
		var bits []int
		if ops32&(1<<op) != 0 {
			bits = append(bits, 32)
		}
		if ops64&(1<<op) != 0 {
			bits = append(bits, 64)
		}
		if bits != nil {
			list = append(list, atomic{name, bits})
		}
	}
	for _, p := range post {
		add(p.op, p.name, a.Atomic32.Post, a.Atomic64.Post)
	}
	for _, p := range post {
		add(p.op, "f"+p.name, a.Atomic32.Fetch, a.Atomic64.Fetch)
	}
	add(uct.AtomicSwap, "swap", a.Atomic32.Fetch, a.Atomic64.Fetch)
	add(uct.AtomicCSwap, "cswap", a.Atomic32.Fetch, a.Atomic64.Fetch)
	return list
}

// connections lists the objects to which an endpoint can connect: the peer's endpoint, the peer's
// interface.
func connections(a *uct.IfaceAttr) []string {
	var list []string
	if a.Flags.Has(uct.IfaceConnectToEP) {
		list = append(list, "ep")
	}
	if a.Flags.Has(uct.IfaceConnectToIface) {
		list = append(list, "iface")
	}
	return list
}

// errorHandling lists the errors that an interface reports.
func errorHandling(a *uct.IfaceAttr) []string {
	var list, buffers []string
	add := func(to *[]string, flag uct.IfaceFlags, name string) {
		if a.Flags.Has(flag) {
			*to = append(*to, name)
		}
	}
	add(&buffers, uct.IfaceErrHandleShortBuf, "short")
	add(&buffers, uct.IfaceErrHandleBcopyBuf, "bcopy")
	add(&buffers, uct.IfaceErrHandleZcopyBuf, "zcopy")
	if buffers != nil {
		list = append(list, "buffer ("+strings.Join(buffers, ",")+")")
	}
	add(&list, uct.IfaceErrHandleAMID, "active-message id")
	add(&list, uct.IfaceErrHandleRemoteMem, "remote access")
	add(&list, uct.IfaceErrHandlePeerFail, "peer failure")
	add(&list, uct.IfaceEpCheck, "ep_check")
	add(&list, uct.IfaceEpKeepalive, "keepalive")
	return list
}

// memoryUse is a type of memory and the uses that a domain has for it.
type memoryUse struct {
	memory ucs.MemoryType
	uses   []string
}

// domainMemory lists the types of memory that a domain registers or allocates.
func domainMemory(a *uct.MDAttr) []memoryUse {
	uses := []struct {
		types []ucs.MemoryType
		name  string
	}{
		{a.AccessTypes, "access"}, {a.AllocTypes, "alloc"}, {a.NonblockTypes, "reg_nonblock"},
		{a.RegTypes, "reg"}, {a.CacheTypes, "cache"},
	}
	var list []memoryUse
	for t := ucs.MemoryHost; t.Valid(); t++ {
		if !slices.Contains(a.AllocTypes, t) && !slices.Contains(a.RegTypes, t) {
			continue
		}
		m := memoryUse{memory: t}
		for _, u := range uses {
			if slices.Contains(u.types, t) {
				m.uses = append(m.uses, u.name)
			}
		}
		list = append(list, m)
	}
	return list
}
