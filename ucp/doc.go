// Package ucp is the communication API of UCX: contexts, workers, endpoints and requests, with
// tagged messages, active messages, streams and one-sided access to registered memory. The two
// workers may be in one process, on one host or on different hosts, and may be Go or C on
// either side.
//
// # Objects
//
// A Context holds the transports of the machine that the settings allow. A Worker is a progress
// engine with receive queues and an Address; a peer connects to it by this Address, or by the
// socket address of one of its Listeners. An Endpoint is a connection from a worker to one peer.
// An operation that does not finish in its call returns a Request. A Memory is registered
// memory; an Rkey gives access to a peer's memory.
//
// # Starting and finishing
//
// A non-blocking call returns a request or an error, never both:
//
//	(nil, nil)  done; the callback will not run
//	(req, nil)  in flight; the callback, if given, runs once, from progress
//	(nil, err)  failed, nothing was started
//
// Two operations can also fail in their call after they have begun: a receive whose message has
// already arrived and does not fit (ucs.ErrMessageTruncated), and a message of a worker to itself
// whose handler refuses the data (the error of the handler).
//
// All methods of Request accept nil, which means "done", so results need no check before they
// are passed on. The results of a request can be read until Free, which is optional: it lets the
// library reuse the object for another operation. Operations advance only while a goroutine
// calls Worker.Progress, or a call that waits: Request.Wait, Worker.Run, Shutdown, and the
// operations whose names end in Wait. The same holds for requests of peers: a worker that no
// goroutine progresses answers none. A worker with WorkerParams.Background progresses itself.
//
// # Closing an endpoint
//
// A flush close (Endpoint.CloseAsync without CloseForce, Endpoint.Shutdown) refuses new operations
// at once. The endpoint stays until the operations that were started before have ended: until the
// peer has received its messages, and until data that is being fetched for a receive has arrived.
// Then the lanes are flushed, and the close is done. Operations are canceled only if the peer's
// endpoint is gone, if the context of Shutdown ends, or by Endpoint.Close or CloseForce. A peer
// that never receives therefore delays a close, but cannot block a process that gives Shutdown a
// context with a deadline. Receives of the endpoint's stream are canceled at once, and unread bytes
// of the stream are discarded.
//
// The library may keep an endpoint that the application has closed, hidden, as long as the peer's
// application holds its endpoint: messages of the peer still arrive. When neither application holds
// its endpoint both are released, so a closed endpoint leaves nothing on either side. C UCX keeps
// its endpoints until its worker is destroyed; endpoints to such peers are also kept here, up to a
// limit.
//
// Over a connection by socket address a close ends both sides: the operations of the other
// side fail and its error handler is called, unless that side is also being closed. The error
// of an orderly close by the peer matches ucs.ErrPeerClosed. If the peer dies, or its worker
// ends without a close, the error matches ucs.ErrConnectionReset. The text of an error is the
// same for the handler, for Endpoint.Err and for the operations: "ucp: endpoint NAME: " and
// the cause.
//
// # The end of a context
//
// When the context of a call that waits ends before the operation does, the call cancels the
// operation if no data is lost by that. The error then matches ucs.ErrCanceled: nothing was
// sent or received, and the buffer is the caller's. Other operations end as follows:
//
//	Worker.TagRecvWait         a matched message that arrives in packets goes back to the
//	TagMessage.RecvWait        worker, and a later receive gets it. A message that is
//	                           fetched from its sender is waited for.
//	AMMessage.RecvWait         data that is fetched from its sender is waited for.
//	Endpoint.GetWait           the data is waited for.
//	AtomicWait, FetchAddWait   not begun: not carried out, ucs.ErrCanceled. Otherwise it
//	and similar calls          goes on, the error is the context's alone, and nothing is
//	                           stored.
//	Endpoint.StreamRecvWait    nothing has been received, the bytes stay in the stream.
//	StreamRecvFullWait         the n bytes that it returns are in the buffer, the rest stays
//	                           in the stream.
//	AMQueue.Next, All          no message has been taken out.
//	Endpoint.TagSendWait       not begun: not sent, ucs.ErrCanceled. Otherwise the message
//	TagSendSyncWait            goes on, and the receiver may get it. If the library can copy
//	AMSendWait, StreamSendWait what has not been sent, it does: the error is the context's
//	Endpoint.PutWait           alone, and the buffer is the caller's. If a transport or the
//	                           peer reads the buffer, the error also matches ucs.InProgress:
//	                           the buffer must not be changed before the endpoint is closed.
//	Endpoint.FlushWait         the flush goes on; its end is not reported.
//	Endpoint.ConnectWait       the connection setup goes on.
//	Endpoint.Shutdown          operations that the peer has not answered are canceled, and
//	                           the close goes on while the worker is progressed.
//	Worker.Shutdown            the same for all its endpoints; the worker stays open.
//	Worker.Run, Wait, WaitMem  there is no operation.
//	Request.Wait               a receive that no message has matched, and a stream receive,
//	                           is canceled. Any other operation goes on with its buffer;
//	                           the request tells when it is done, and can be waited for
//	                           again.
//
// "Waited for" means that the call returns after the end of its context, with the result of
// the operation, which may be nil. The operation ends when the data has arrived, or when the
// sender, its connection or the endpoint ends. So no call that stores into a buffer returns
// while the library uses the buffer, and a deadline loses no message. A program that must not
// wait for a stalled peer starts the operation without waiting, and then calls Request.Wait.
//
// All operations take the same optional parameters; a parameter that does not apply to a call
// is refused with ucs.ErrInvalidParam.
//
// # Goroutines
//
// In ThreadModeMulti any goroutine may call a worker, and all objects that belong to it, at any
// time without a lock. Any number of goroutines may wait: each is woken by the end of its own
// operation, and one of them progresses the worker for all. So a server may have a goroutine
// for each request and needs no goroutine for progress, except for times in which none of them
// waits; WorkerParams.Background covers these.
//
// A call that starts an operation while another goroutine is inside the worker leaves the operation
// to that goroutine (delegates it), and returns a request even for an operation that would
// otherwise be done in the call. Up to a few hundred short sends and atomic operations without a
// result are delegated without a request. A call whose result depends on the goroutine that carries
// it out waits until it owns the worker. These are TagMessage.Recv, AMMessage.Recv and CloseAsync;
// operations with OpForceImmediate or with a Request of the caller's, on an endpoint that has
// failed or was closed, and in contexts with request hooks; and all calls that do not start an
// operation.
//
// The operations of one goroutine on an endpoint are sent in order. Operations that a callback
// starts are sent when it runs, possibly before operations that the same goroutine has left to
// another one. If Cancel and the end of an operation coincide, exactly one of them decides its
// result. After Free of a request in flight its callback does not run.
//
// In ThreadModeSingle and ThreadModeSerialized a worker and all objects that belong to it must
// be used by one goroutine at a time; the caller ensures this. Worker.Signal is the exception:
// it may be called from any goroutine. The library detects misuse where detection costs
// nothing: a call that overlaps a call of another goroutine, which may be asleep in Run, panics
// with a message, and Close is refused with ucs.ErrBusy. Detection does not use atomic
// operations, so calls that begin at the same moment may go unnoticed; the race detector finds
// these.
//
// Different workers are independent. A Context and a Memory may be used from any goroutine,
// except Memory.Allow, which is a call of the endpoint's worker. "It belongs to its worker's
// goroutine" in a type's comment applies to the single-goroutine modes.
//
// # Active messages
//
// An active message names a handler at the receiver by a number and is passed to it
// (Endpoint.AMSend, Worker.SetAMHandler). The handler, or the program that takes the message
// from an AMQueue instead, gets the sender's header and the data; for a long message it gets an
// offer of the data, which it fetches or refuses. It may keep the message, and reply over an
// endpoint, which the library makes if there is none.
//
// Replies are what the application sends over an endpoint that only the peer has opened, such
// as AMMessage.Reply. Their memory is bounded, whatever the peer does. When a peer has 16 MiB
// of unread replies, the library stops reading the peer's connection until the peer has read
// half of them, and AMQueue holds back the messages that the peer has already sent. At 64 MiB
// the peer is dropped, and the sends end with ucs.ErrExceedsLimit. The limits count requests
// and their data; of a large message they count the beginning.
//
// On such an endpoint AMSendWait, TagSendWait and StreamSendWait do not wait for the peer to read:
// data that cannot be sent at once is copied, and the send is done. If it fails afterwards, the
// endpoint fails or the next flush returns the error. So a loop over AMQueue.All can answer one
// peer after the other. Synchronous sends and sends by rendezvous are waited for, because only the
// peer can end them: until the peer does so, the endpoint fails, or ctx ends. Give ctx a deadline
// if that may take too long. AMSendWait by rendezvous, as a reply to a message that the application
// still holds, can also end in another way: if a queue has messages of other peers that are not
// being taken out, and the peer makes no progress for half a second, the data is copied and the
// send is done. If the data cannot be copied, because the peer may be reading it or because it is
// longer than 16 MiB, the call ends with an error that matches ucs.ErrExceedsLimit and
// ucs.InProgress: the operation goes on, as when ctx ends.
//
// On an endpoint that was accepted by a listener, replies are not charged and the peer is not
// dropped. But while the application holds a message of the peer, calls that wait for sends on this
// endpoint end as described above, and the peer's next messages stay in the queue until the peer
// has read. An endpoint that the application makes to the same peer has no such limits.
//
// # Callbacks
//
// Callbacks run one at a time, on the goroutine that progresses the worker or whose call has
// ended the operation. They may start operations and make any call that does not wait; they
// must not progress the worker. No other goroutine can use the worker until a callback returns,
// so a callback must not wait for a goroutine that may be about to call the worker.
//
// A callback that panics leaves the worker intact. The library call that it ran in finishes its
// work and panics with a CallbackPanic. A callback that ends its goroutine (runtime.Goexit,
// t.FailNow) makes the worker unusable; later calls report that.
//
// # Streams
//
// Each endpoint has a stream in either direction: StreamSend appends bytes, and the peer reads
// them in pieces of its own choice, by StreamRecv into its memory or by StreamRecvData in
// place. Worker.StreamPoll lists the endpoints that have bytes to read. A peer that sends more
// than is read has to wait, and so does everything behind the stream's data on the same
// connection, tagged messages for example: an application that waits for any message of a peer
// must also read the peer's stream. Flushes, rendezvous and other operations that expect an
// answer are not delayed by that. Over shared memory a sender cannot be made to wait; there
// only UCX_MAX_UNEXP_BYTES bounds the unread bytes, and a stream beyond it ends with an error.
// When an endpoint fails, bytes that have arrived can still be read; closing it discards them.
//
// # Memory
//
// A process whose memory peers access has to progress its worker, by a call that waits or by
// WorkerParams.Background. Only over shared memory and RDMA devices do most accesses need no
// progress, and even there a flush, an atomic operation or a large message may need it.
//
// A buffer given to an operation belongs to the library until the operation is done: until then
// the caller must neither read nor write it. "Done" means for a send that the buffer may be
// reused, for a synchronous send that the receiver has matched it, for a receive that the data
// has arrived, for a put that the buffer may be reused, for a get or a fetching atomic operation
// that the result has arrived. Whether a put or an atomic operation has taken effect at the peer
// is known only after a flush.
//
// Peers can access only what Context.Register, Alloc or MemMap have registered, within its
// rights and until it is closed. Every access that the worker carries out for a peer is checked,
// whatever the peer claims; an access that is not permitted drops the peer's connection. Peers
// map only memory of Alloc and access it by themselves; there they have all rights. A process
// that the kernel permits to trace this one, such as another program of the same user, can
// access all of its memory, and does so for large messages (transport cma).
package ucp
