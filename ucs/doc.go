// Package ucs holds the values every layer of UCX shares: status codes, memory
// types and thread modes, with the numbers C UCX gives them.
//
// Its sub-packages are the services the layers stand on: config (UCX_*
// settings), log, event (epoll sets and timers), queue (lock-free queues) and
// sys (system calls without the scheduler's detour). Nothing here knows a
// transport or a message.
package ucs
