// Package ucpnet is package net on top of UCP: Listen, Dial, net.Listener and net.Conn, over
// shared memory within a machine and whatever transports there are between machines. What is
// made for package net runs over it, net/http and gRPC among that.
//
// # Workers
//
// All connections and listeners of a process share one worker, made with the settings of the
// environment (UCX_TLS …) when it is first needed, and closed with the last of them. A
// program that has a worker gives that (Config.Worker). As everywhere in this library, the
// goroutines that wait on the worker or call it also progress it: those in Accept, Dial, Read
// and Write. In the meantime a background goroutine progresses the shared worker
// (ucp.WorkerParams.Background), as a kernel answers for sockets. A worker that the program
// gives without such a goroutine does not answer its peers in the meantime: a client waits
// until the server is in an Accept, Read or Write of the worker. The package starts other
// goroutines only for waits of unknown length that no caller is in: for a client that is
// connecting, for a connection that was closed, and for a send that outlived its deadline.
//
// When a process ends, bytes that Close could not hand over in its call are lost; Shutdown
// waits for them. Programs that end in good order call it last.
//
// # What travels
//
// The bytes of a connection are a stream of UCP, so either side may be C UCX, which has
// streams alone: a C peer ends its bytes by closing the connection, and a read also returns
// io.EOF when the process of a C peer is gone. Two ends of this package exchange notes, too,
// as active messages (MessageID); each recognizes the other by the Greeting that they
// exchange as client ids when they connect. No note is ever sent to another kind of peer.
// With notes the ends have CloseWrite and CloseRead, tell the end of a connection from the
// death of a process, which is syscall.ECONNRESET, and have flow control: a Write waits when
// some hundred KiB are unread. A C peer is limited by the flow control of package ucp, which
// its comment describes under Streams: over shared memory a connection fails that brings more
// than the process may hold.
//
// # Errors
//
// Errors are *net.OpError, and net.Error by that. They match os.ErrDeadlineExceeded,
// net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE for writes after
// CloseWrite or to a peer that reads no more, and the errors of package ucs that they come
// from. The text of an error names the event once; errors.As finds the error of package ucp.
// The end of the peer's bytes is io.EOF.
//
// # Systems
//
// The package compiles for all systems. Where there are no transports but self, on other
// systems than Linux, and with UCX_TLS=self, Pipe works and nothing listens.
package ucpnet
