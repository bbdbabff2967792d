// Package pingpong is the twin of the pingpong examples of rdma-core
// (libibverbs/examples): two processes tell each other their addresses over TCP and
// send a message back and forth over queue pairs. Flags, the exchange, the lines
// printed and the exit statuses are those of the C tools, and either end may be one.
// What differs:
//
//   - Without -g, RoCE uses the default GID; the C tools use none there and fail.
//   - A number that is not one, or too large, is refused.
//   - -c compares all that came in the last message, at both ends, and what is wrong
//     makes the status 1, not 0.
//   - An end that is gone is noticed if it was one of these tools too: see link.
//     Sends are retried 6 times, because 7 means for ever to soft-RoCE.
//   - What needs an interface that package verbs does not have is refused: device
//     memory, timestamps, implicit paging, prefetching and the extended posting.
//
// How it is put together: options.go reads the command line, session.go makes the
// objects, exchange.go and link.go talk over TCP, loop.go plays, report.go prints.
package pingpong
