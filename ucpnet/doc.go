// Package ucpnet is package net on top of UCP: Listen, Dial, net.Listener and net.Conn, over
// shared memory within a machine and whatever transports there are between machines. What is
// made for package net runs over it, net/http and gRPC among that.
//
// # Workers
//
// All connections and listeners of a process share one worker, made with the settings of the
// environment (UCX_TLS …) when it is first needed, and closed with the last of them. A
// program that has a worker gives that (Config.Worker). As everywhere in this library the
// worker is progressed by who waits on it, or calls it: in Accept, Dial, Read, Write. While
// nobody does, the shared worker is by a goroutine of its own (ucp.WorkerParams.Background),
// as a kernel answers for sockets. A worker of the program that has none does not answer its
// peers then: a client waits for as long as the server is in no Accept, Read or Write of
// the worker. Other goroutines there are only for what somebody else than the caller has to
// wait for, as long as it takes: a client that is connecting, a connection that was closed,
// and what a call has left behind at its deadline.
//
// A process that ends takes with it what Close could not hand over in its call; Shutdown
// waits for that. Programs that end in good order call it last.
//
// # What travels
//
// The bytes of a connection are a stream of UCP, so either side may be C UCX, with streams
// alone: that gets io.EOF to the other end by closing the connection, and a read returns
// io.EOF, too, when the process of C is gone. Ends that both are of this package tell each
// other more, by active messages (MessageID); each knows that of the other by the Greeting
// that they exchange as client ids when they connect. No such message is ever sent to
// anybody else. They have CloseWrite and CloseRead, know the end of a connection from the
// end of a process, which is syscall.ECONNRESET, and flow control: a Write waits when some
// hundred KiB are unread. A peer of C is held back by what package ucp has, see its comment
// on streams: over shared memory a connection fails that brings more than the process may
// hold.
//
// # Errors
//
// Errors are *net.OpError, and net.Error by that. They match os.ErrDeadlineExceeded,
// net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE for writes after
// CloseWrite or to who reads no more, and the errors of package ucs that they come from. An
// error text names the event once; what package ucp says of it errors.As finds.
// The end of what the peer writes is io.EOF.
//
// # Systems
//
// The package compiles for all systems. Where there are no transports but self, on other
// systems than Linux, and with UCX_TLS=self, Pipe works and nothing listens.
package ucpnet
