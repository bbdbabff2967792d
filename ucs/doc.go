// Package ucs holds the values every layer of UCX shares: status codes, memory
// types and thread modes, with the numbers C UCX gives them.
//
// Its sub-packages are the services that users of the layers see as well: config
// (UCX_* settings), log, event (epoll sets, timers and a coarse clock) and async
// (functions called for these, as ucs_async_* does). Nothing here knows a transport or
// a message, but for the names that UCX_TLS may hold, in config.
package ucs
