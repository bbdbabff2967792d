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
// it lets the object serve another operation. Operations advance only while a goroutine
// calls Worker.Progress, or one of the calls that wait: Request.Wait, Worker.Run,
// Shutdown, and the forms of operations whose names end in Wait. The same holds for requests
// of peers: a worker that no goroutine progresses answers none. A worker with
// WorkerParams.Background progresses itself.
//
// # Closing an endpoint
//
// A flush close (Endpoint.CloseAsync without CloseForce, Endpoint.Shutdown) refuses new
// operations at once. The endpoint stays until the operations that were started before have
// ended: until the peer has received its messages, and until data that is being fetched for a
// receive has arrived. Then the lanes are flushed, and the close is done. Operations are
// canceled only if the peer's end is gone, if the context of Shutdown ends, or by
// Endpoint.Close or CloseForce. So a peer that never receives delays a close, but cannot hold
// a process: give Shutdown a context that ends. Receives of the endpoint's stream are canceled
// at once, and what is unread of the stream is thrown away.
//
// The library may keep an end that the application has closed, hidden, as long as the peer's
// application holds the other end: messages of the peer still arrive. When neither
// application holds its end both are released, so a closed endpoint leaves nothing at either
// side. C UCX keeps its ends until its worker is destroyed; ends toward such peers are kept as
// well, in bounded number.
//
// Over a connection by socket address a close ends both sides: the operations of the other
// side fail and its error handler is called, unless it is being closed as well. The error of
// an orderly close by the peer matches ucs.ErrPeerClosed; the peer's death, and the end of its
// worker without a close, match ucs.ErrConnectionReset. The text of an error is the same
// for the handler, for Endpoint.Err and for the operations: "ucp: endpoint NAME: " and what
// has happened.
//
// # The end of a context
//
// When the context of a call that waits ends before the operation, the call cancels the
// operation if that loses no data. The error then matches ucs.ErrCanceled: nothing was sent
// or received, and the buffer is the caller's. Other operations end as follows:
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
//	Endpoint.FlushWait         the flush goes on; its end is not reported.
//	Endpoint.ConnectWait       the connecting goes on.
//	Endpoint.Shutdown          what the peer has not answered is canceled, and the closing
//	                           goes on while the worker is progressed.
//	Worker.Shutdown            the same for all its endpoints; the worker is open.
//	Worker.Run, Wait, WaitMem  there is no operation.
//	Request.Wait               a receive that no message has matched, and one of a stream, is
//	                           canceled. Anything else goes on with its buffer; the request
//	                           tells when it is done, and can be waited for again.
//
// "Waited for" means that the call returns after the end of its context, with the result of
// the operation, which may be nil. The operation ends when the data has arrived, or when the
// sender, its connection or the endpoint ends. So no call that stores into a buffer returns
// before the library is done with the buffer, and a deadline loses no message. A program that
// must not wait for a peer that has stopped starts the operation without waiting, and then
// calls Request.Wait.
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
// without one, up to some hundred. A call whose result depends on the goroutine that carries
// it out waits until it owns the worker: TagMessage.Recv, AMMessage.Recv and CloseAsync, with
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
// (Endpoint.AMSend, Worker.SetAMHandler). The function, or the program that takes the message
// out of an AMQueue instead, gets the sender's header and the data; for a long message it gets
// an offer of the data, which it fetches or refuses. It may keep the message, and answer over
// an endpoint, which the library makes if there is none.
//
// Replies are what the application sends over an endpoint that only the peer has opened, such
// as answers over AMMessage.Reply. Their memory is bounded, whatever the peer does. When a
// peer has 16 MiB of replies to read, the library stops reading the peer's connection until it
// has read half of them, and AMQueue holds back the peer's earlier messages; at 64 MiB the
// peer is dropped, and the sends end with ucs.ErrExceedsLimit. The limits count requests and
// their data, of a large message its beginning. On such an endpoint AMSendWait, TagSendWait
// and StreamSendWait do not wait for the peer to read: data that does not leave at once is
// copied, and the send is done; if it fails afterwards the endpoint has failed, or the next
// flush returns the error. So a loop over AMQueue.All can answer one peer after the other.
// Synchronous sends and sends by rendezvous are waited for, because the peer ends them: until
// it does, or the endpoint fails, or ctx ends. Give ctx a deadline if that is too long.
// AMSendWait by rendezvous, as an answer to a message that the application still holds, has
// one more end: if a queue has messages of other peers that are not taken meanwhile, and the
// peer makes no progress for half a second, the data is copied and the send is done. If the
// data cannot be copied, because the peer may be reading it or it is longer than 16 MiB, the
// call ends with an error that matches ucs.ErrExceedsLimit and ucs.InProgress: the operation
// goes on, as when ctx ends.
//
// On an endpoint that was accepted for a listener replies are not charged, and the peer is not
// dropped. But while the application holds a message of the peer's, calls that wait there end
// as those above do, and the peer's next messages stay in the queue until it has read. An
// endpoint that the application makes to the same peer has no such limits.
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
