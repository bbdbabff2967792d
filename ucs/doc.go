// Package ucs holds the values every layer of UCX shares: status codes, memory
// types and thread modes, with the numbers C UCX gives them.
//
// Its sub-packages are the services the layers stand on: config (UCX_*
// settings), log, event (epoll sets, timers and a coarse clock), queue (a
// lock-free queue), sys (system calls without the scheduler's detour) and topo
// (which machine and which namespaces this is). Nothing here knows a transport or
// a message, but for the names that UCX_TLS may hold, in config.
package ucs
