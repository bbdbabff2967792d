// Package ucs holds the values that every layer of UCX shares: status codes, memory types
// and thread modes, with C UCX's numbers.
//
// Its subpackages are services that users of the layers also need: config (UCX_* settings), log,
// event (epoll sets, timers and a coarse clock) and async (handlers for descriptors and timers, as
// in ucs_async_*). They do not depend on transports and messages, except that config has the names
// of transports that UCX_TLS may contain.
package ucs
