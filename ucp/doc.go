// Package ucp is the communication API of UCX: contexts, workers, endpoints and
// requests, with tagged and active messages, streams and one-sided access to registered
// memory between workers of one process, of one host or of different hosts, Go or C on
// either side.
//
// # Objects
//
// A Context holds the transports of the machine that the settings allow. A
// Worker is a progress engine with its own receive queues and an Address that
// peers need; or they know a socket address that a Listener of it listens at. An Endpoint
// is the way from a worker to one peer. An operation
// that does not finish in its call returns a Request. A Memory is registered
// memory; an Rkey is the right to access a peer's.
//
// # Starting and finishing
//
// A non-blocking call returns a request and an error, never both:
//
//	(nil, nil)  done; the callback will not run
//	(req, nil)  in flight; the callback, if given, runs once, from progress
//	(nil, err)  failed, nothing was started
//
// All methods of Request accept nil and then mean "done", so results can be
// passed on unseen. What a request tells can be read until Free, which is optional:
// it lets the object serve another operation. Operations advance only while somebody
// calls Worker.Progress, or one of the calls that wait: Request.Wait, Worker.Run,
// Shutdown, and the forms of operations whose names end in Wait. That is so for what
// peers ask for, too: a process in which nobody does answers nobody. A worker with
// WorkerParams.Background does it by itself.
//
// # Closing an endpoint
//
// A flush close (Endpoint.CloseAsync without CloseForce, Endpoint.Shutdown) refuses new
// operations at once. The endpoint stays until those that were started before have ended:
// until the peer has matched and taken its messages, until what is being fetched for a
// receive is here. Then the lanes are flushed, and the close is over. Operations are
// canceled only where the peer's end is gone, where the context of Shutdown ends, or where
// Endpoint.Close or CloseForce ends all. So a peer that never receives holds up a close, but
// not a process: give Shutdown a context that ends. Receives of the endpoint's stream are
// canceled at once, and what is unread of it is thrown away.
//
// An end that the application has closed may stay, hidden, for as long as the peer's
// application holds the other one: what the peer sends over that still arrives. Ends that
// nobody holds go together, so that an endpoint that was closed leaves nothing at either
// side. Peers of C UCX, which keep their ends until their worker is destroyed, are served
// likewise, in bounded number.
//
// Over a connection by socket address a close ends both: the other side's operations fail
// and its error handler is called, unless it is being closed as well. A peer's close in good
// order is ucs.ErrPeerClosed; its death, or the end of its worker without one, is
// ucs.ErrConnectionReset.
//
// # The end of a context
//
// When the context of a call that waits ends before the operation, the call gives the
// operation up if nothing is lost by that. An error that matches ucs.ErrCanceled says that it
// did: nothing was sent or received, and the buffer is the caller's. What cannot be given up
// has another end, by the call:
//
//	Worker.TagRecvWait         a message that has matched and comes in packets goes back to
//	TagMessage.RecvWait        the worker, and a later receive gets it. One that is fetched
//	                           from its sender is waited for.
//	AMMessage.RecvWait         data that is fetched from its sender is waited for.
//	Endpoint.GetWait           the data is waited for.
//	AtomicWait, FetchAdd64Wait not begun: not carried out, ucs.ErrCanceled. Else it goes on,
//	and the like               and the error is the context's alone. Nothing is stored.
//	Endpoint.StreamRecvWait    nothing has been received, the bytes stay in the stream.
//	StreamRecvFullWait         the n bytes that it returns are in the buffer, the rest stays
//	                           in the stream.
//	AMQueue.Next, All          no message has been taken out.
//	Endpoint.TagSendWait       not begun: not sent, ucs.ErrCanceled. Else the message goes
//	TagSendSyncWait            on, and the receiver may get it. Where the library can copy
//	AMSendWait, StreamSendWait what has not left it does, the error is the context's alone,
//	Endpoint.PutWait           and the buffer is the caller's. Where a transport or the peer
//	                           reads the buffer the error matches ucs.InProgress, too: it
//	                           must not be changed before the endpoint is closed.
//	Endpoint.FlushWait         the flush goes on, nobody is told of its end.
//	Endpoint.ConnectWait       the connecting goes on.
//	Endpoint.Shutdown          what the peer has not answered is canceled, and the closing
//	                           goes on while the worker is progressed.
//	Worker.Shutdown            the same for all its endpoints; the worker is open.
//	Worker.Run, Wait, WaitMem  there is nothing to give up.
//	Request.Wait               a receive that no message has matched, and one of a stream, is
//	                           canceled. Anything else goes on with its buffer; the request
//	                           tells when it is done, and can be waited for again.
//
// "Waited for" is as long as it takes: the call returns behind the end of its context, with
// the result of the operation, also nil. That end comes with the data, or with the life of
// the sender, of its connection or of the endpoint. So no call that stores into a buffer
// returns before the library is done with it, and no message is lost by a deadline. A
// program that must not wait for a peer that stands still starts the operation without
// waiting, and waits by Request.Wait.
//
// All operations take the same optional parameters; what does not belong to a call
// is refused with ucs.ErrInvalidParam.
//
// # Goroutines
//
// In ThreadModeMulti any goroutine may call a worker and everything that belongs to it
// at any time, without a lock of the caller's. Any number may wait: each is woken by
// the end of what it waits for, and one of them progresses the worker for all. So a
// server may have a goroutine for each request, and needs none for progress, unless there
// are times in which none waits: for these there is WorkerParams.Background.
//
// A call that starts an operation and finds another goroutine inside the worker leaves
// what is to be done to that one, and returns a request also where it would be done in the
// call otherwise. Sends of some bytes, and atomic operations without a result, are left
// without one, up to some hundred. The call waits for its turn where it makes a difference
// to the caller who carries it out: in TagMessage.Recv, AMMessage.Recv and CloseAsync, with
// OpForceImmediate or a Request of the caller's, on an endpoint that has failed or was
// closed, and in contexts with hooks for requests. So do all other calls.
//
// The operations of one goroutine on an endpoint go out in order. What a callback starts goes
// out when it runs, maybe before what the goroutine it runs on has left to others. Of
// Cancel and the end of the operation exactly one decides its result; after Free of a
// request in flight its callback does not run.
//
// A worker in ThreadModeSingle or ThreadModeSerialized, with everything that
// belongs to it, is used by one goroutine at a time; the caller sees to that.
// Worker.Signal is the exception: it may be called from anywhere. What a caller gets
// wrong is told as far as that costs nothing: a call beside one of
// another goroutine, which may be asleep in Run, panics and says so; Close is refused
// with ucs.ErrBusy there. The look is a plain one, and calls that begin at the same
// moment may miss each other once: the race detector finds what it misses.
//
// Different workers are independent, and a Context and a Memory may be used from
// anywhere, but for Memory.Allow, which is a call of the endpoint's worker. What a type
// says of its goroutine is about the modes of one.
//
// # Active messages
//
// An active message names a function of the receiver's, by a number, and is given to it
// (Endpoint.AMSend, Worker.SetAMHandler). The function, or who takes the message out of an
// AMQueue instead, gets the sender's header and the data; of long messages only an offer
// of the data, which it fetches or refuses. It may keep the message, and answer over an
// endpoint that is made for that if there is none.
//
// What the application sends over an endpoint that only the peer has opened, as such answers
// over AMMessage.Reply, is bounded, whatever the peer does. A peer that has 16 MiB of it to
// read is not read itself until it has read half, and AMQueue holds back what the peer has
// asked before; at 64 MiB the peer is dropped, and the sends end with ucs.ErrExceedsLimit.
// Counted are requests and their data, of large messages the beginning. AMSendWait,
// TagSendWait and StreamSendWait do not wait there for a peer to read: what does not leave
// at once is copied, and the send is done; if it fails afterwards, the endpoint has failed,
// or the next flush tells. So a loop over AMQueue.All can answer one peer after the other.
// Synchronous sends and data that is offered are waited for, as their end is the peer's to
// tell: until it does, or goes, or ctx ends. Give ctx a deadline where that is too long. Only
// AMSendWait with offered data, an answer to a message that the application has still, does
// not stop the others: where a queue has messages of other peers that nobody takes meanwhile,
// and the peer does nothing for half a second, the data is copied and the send done. If that
// cannot be, because the peer may be reading it or it is longer than 16 MiB, the call ends
// with an error that matches ucs.ErrExceedsLimit and ucs.InProgress: the operation goes on,
// as when ctx ends.
//
// On an endpoint that was accepted for a listener nothing is charged or dropped. But calls
// that wait there end as these do while the application has a message of the peer's to
// answer, and the next ones of this peer stay in the queue until it has read. An endpoint
// that the application makes for the same peer has none of it.
//
// # Callbacks
//
// Callbacks run on the goroutine that progresses the worker, or whose call has ended the
// operation, one at a time. They may start operations and call whatever does not wait,
// and must not progress. Nobody else gets at the worker until they return, so they must
// not wait for other goroutines that may be about to call it.
//
// A callback that panics leaves the worker in order. The call of the library that it
// ran in ends what it was doing and panics with a CallbackPanic. A callback that ends
// its goroutine (runtime.Goexit, t.FailNow) leaves a worker that cannot be used any
// more, and whose calls say so.
//
// # Streams
//
// Each endpoint has a stream in either direction: StreamSend appends bytes, the peer
// reads them in pieces of its own choice, by StreamRecv into its memory or by
// StreamRecvData where they are. Worker.StreamPoll tells which endpoints have something to
// read. A peer that sends more than is read has to wait, and so does everything behind
// that on the same connection, tagged messages for one: an application that waits for
// anything of a peer reads what the peer's stream brings. A flush, a rendezvous and other
// operations that expect an answer are not held up by that. Over shared memory nobody can
// be made to wait, and what is unread is bounded by UCX_MAX_UNEXP_BYTES only: a stream
// beyond it ends with an error. When an endpoint fails what has come can still be read;
// closing it throws that away.
//
// # Memory
//
// A process whose memory peers access has to progress its worker, by a call that waits or by
// WorkerParams.Background: only over shared memory and RDMA devices do most accesses go
// without, and even there a flush, an atomic operation or a large message may not.
//
// A buffer given to an operation belongs to the library until the operation is
// done: it is neither read nor written by the caller meanwhile. "Done" means for
// a send that the buffer may be reused, for a synchronous send that the receiver
// has matched it, for a receive that the data is there, for a put that the buffer
// may be reused, for a get or a fetching atomic operation that the result is
// there. That a put or an atomic operation has taken effect at the peer takes a
// flush.
//
// Peers access what Context.Register, Alloc or MemMap have registered, within its
// rights and until it is closed, and nothing else: every access that the worker
// carries out for a peer is checked, whatever the peer says, and refused by dropping
// the peer's connection. Memory that peers map and access by themselves is that of
// Alloc alone, where they have all rights to it. A process that the kernel lets trace
// this one, as that of another program of the same user, can access all of its
// memory, and does for large messages (transport cma).
package ucp
