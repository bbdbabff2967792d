// Package abi describes the Linux kernel's interface for RDMA verbs: constants, the structs that
// cross it, and one table of its methods and attributes, which the builder of requests, their
// decoder and the tests use. It makes no calls.
//
// Constants keep their C names. Structs and fields have their C names in camel case, without the
// prefix ib_uverbs_; the structs of drivers begin with Rxe and Mlx5. All numbers are in the byte
// order of the machine, except fields whose type or comment says BE.
//
// Sources are the kernel's headers include/uapi/rdma: rdma_user_ioctl_cmds.h,
// ib_user_ioctl_cmds.h, ib_user_ioctl_verbs.h, ib_user_verbs.h, rdma_user_rxe.h,
// mlx5-abi.h and mlx5_user_ioctl_*.h; for mlx5's queues providers/mlx5 of rdma-core.
package abi
