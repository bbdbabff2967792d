// Package rxe is the provider for soft-RoCE, the kernel's driver rdma_rxe. Queues are rings in
// memory that the kernel allocates and this process maps. Only the doorbell of sends and arming
// need a system call.
//
//	subject                                        file
//
//	opening a device, address handles              context.go
//	rings of any kind                              ring.go
//	queue pairs and their sends                    send.go
//	receives, shared receive queues                recv.go
//	completion queues, polling, arming             poll.go
//	the doorbell for sends                         doorbell.go
//	memory whose addresses the kernel gets         slab.go, slab_unsafe.go
//	accessors of the slots of a ring               slot_unsafe.go, union_unsafe.go
//
// The structs in the slots are in package abi.
package rxe
