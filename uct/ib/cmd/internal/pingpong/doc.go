// Package pingpong implements the pingpong examples of rdma-core (libibverbs/examples): two
// processes exchange their addresses over TCP and send a message back and forth over queue pairs.
// Flags, TCP protocol, output and exit status are those of the C tools, and either end may be a C
// tool. It differs in these points:
//
//   - Without -g, RoCE uses the default GID; the C tools use none there and fail.
//   - A malformed number, or one that is too large, is refused.
//   - -c compares all data of the last message, at both ends, and a difference makes the exit
//     status 1, not 0.
//   - A peer that dies is noticed if it is one of these tools too: see link. Sends are retried 6
//     times, because 7 means forever to soft-RoCE.
//   - Options that need an interface which package verbs does not have are refused: device memory,
//     timestamps, implicit paging, prefetching and the extended posting.
//
// Structure: options.go reads the command line, session.go makes the objects, exchange.go and
// link.go use the TCP connection, loop.go sends and receives, report.go prints.
package pingpong
