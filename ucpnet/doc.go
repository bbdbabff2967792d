// Package ucpnet implements the interfaces of package net on top of UCP: Listen, Dial,
// net.Listener and net.Conn, over shared memory within a machine and over any transport between
// machines. Software written for package net, such as net/http and gRPC, can use it.
//
// # Workers
//
// All connections and listeners of a process share one worker. It is created with the settings of
// the environment (UCX_TLS …) when it is first needed, and closed with the last connection or
// listener. A program that has its own worker sets Config.Worker. As everywhere in this library,
// the goroutines that wait on the worker or call it also progress it: those in Accept, Dial, Read
// and Write. At other times a background goroutine progresses the shared worker
// (ucp.WorkerParams.Background), as a kernel does for sockets. A worker of the program without that
// goroutine does not answer its peers at other times: a client waits until the server is in an
// Accept, Read or Write of the worker. The package starts further goroutines only for waits of
// unknown length without a waiting caller: for a client that is connecting, for a closed
// connection, and for a send that outlived its deadline.
//
// When a process exits, bytes that Close could not pass to the transports during its call are lost.
// Shutdown waits for them: call it last.
//
// # Protocol
//
// The bytes of a connection are a UCP stream, so either side may be C UCX. C UCX has only the
// stream: a C peer ends its bytes by closing the connection, and a read also returns io.EOF
// when the process of a C peer is gone.
//
// If both sides use this package, they also exchange notes, which are control messages sent as
// active messages (MessageID). Each side recognizes the other by the Greeting, which they exchange
// as client ids when they connect; no note is sent to any other kind of peer. Notes provide
// CloseWrite and CloseRead, distinguish the end of a connection from the death of a process, which
// is syscall.ECONNRESET, and provide flow control: a Write waits when several hundred KiB are
// unread. A C peer is limited by the flow control of package ucp, described there under Streams:
// over shared memory a connection fails if the peer sends more than the process may hold.
//
// # Errors
//
// Errors are *net.OpError, and so implement net.Error. They match os.ErrDeadlineExceeded,
// net.ErrClosed, syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE for writes after
// CloseWrite or to a peer that has ended reading, and the errors of package ucs that caused
// them. The text of an error names the event once; errors.As finds the error of package ucp.
// The end of the peer's bytes is io.EOF.
//
// # Systems
//
// The package compiles for all systems. With self as the only transport, as on systems other than
// Linux or with UCX_TLS=self, Pipe works and Listen fails.
package ucpnet
