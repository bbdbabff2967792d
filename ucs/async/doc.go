// Package async calls functions when descriptors are ready and when timers expire, as
// ucs_async_* of C UCX does.
//
// A Context has handlers, and a mode that says who calls them. In the thread modes it
// is a goroutine of the context, which sleeps in Go's poller; it starts with the first
// handler and ends with the last. In ModePoll it is who calls Poll. One function of a
// context runs at a time, in all modes.
//
// Block holds off all of them, and counts what is missed; Unblock, or Poll, makes up
// for it. A function may do everything: remove itself or others, add some, block and
// close the context.
//
// What is different from C: a context is asked before its functions are called in
// ModePoll too, where C calls them all at each poll; Block is no lock between those who
// call it; ids and descriptors belong to a context, not to the process.
//
// Descriptors can be watched on Linux; timers are there everywhere.
package async
