// Package cmabi describes the Linux kernel's interface for the RDMA connection manager: constants,
// the structs that cross it, and one table of its commands, which the calls, their trace and the
// tests use. It makes no calls.
//
// Constants keep their C names. Structs and fields have their C names in camel case, without the
// prefix rdma_ucm_. All numbers are in the byte order of the machine, except fields whose comment
// says BE.
//
// Sources are the kernel's headers include/uapi/rdma: rdma_user_cm.h, ib_user_sa.h
// and ib_user_verbs.h.
package cmabi
