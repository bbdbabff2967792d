// Package abi is the Linux kernel's interface for RDMA verbs: constants, the
// structs that cross it, and one table of its methods and attributes that drives
// the builder of requests, their decoder and the tests. It makes no calls.
//
// Constants keep their C names. Structs and fields have their C names in camel
// case, without the prefix ib_uverbs_; the driver's own begin with Rxe. All of it
// is in the byte order of the machine, except fields whose comment says BE.
//
// Sources are the kernel's headers include/uapi/rdma: rdma_user_ioctl_cmds.h,
// ib_user_ioctl_cmds.h, ib_user_ioctl_verbs.h, ib_user_verbs.h and
// rdma_user_rxe.h.
package abi
