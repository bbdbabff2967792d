// Package ucx is the front page of UCX in pure Go, and holds no code. UCX is the communication library
// of high-performance computing; this module speaks its wire format, without cgo.
//
// Programs use these packages:
//
//   - [github.com/ucx-go/ucx/ucp] is the communication API: contexts, workers, endpoints, tagged and active
//     messages, streams, access to a peer's memory.
//   - [github.com/ucx-go/ucx/ucpnet] is package net on top of it: Listen, Dial, net.Conn.
//   - [github.com/ucx-go/ucx/ucs] has the status codes, which are error values, and under it the settings
//     (ucs/config) and the log (ucs/log).
//   - [github.com/ucx-go/ucx/uct] is the contract of transports, for those who write one or measure one.
//   - [github.com/ucx-go/ucx/uct/ib/verbs] and [github.com/ucx-go/ucx/uct/ib/rdmacm] drive RDMA devices
//     without UCX.
//
// The documents README.md and docs/guide.md lead from two processes to a server of many clients;
// docs/from-c.md has the counterpart of each call of C UCX.
package ucx
