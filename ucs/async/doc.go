// Package async calls functions when descriptors are ready and when timers expire, like
// ucs_async_* of C UCX.
//
// A Context has handlers, and a mode that decides where their functions are called. In the
// thread modes a goroutine of the context calls them. It sleeps in Go's poller, starts with
// the first handler and ends with the last. In ModePoll the caller of Poll calls them. In
// all modes one function of a context runs at a time.
//
// Block stops all calls and records what is missed; Unblock, or Poll, makes the missed
// calls. A function may remove itself or other handlers, add handlers, and block or close
// the context.
//
// Three things differ from C. In ModePoll, too, functions are called only if their
// descriptor or timer is ready, while C calls all of them at each poll. Block is not a lock
// between its callers. Ids and descriptors belong to a context, not to the process.
//
// Descriptors can be watched on Linux; timers are available everywhere.
package async
