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
// Shutdown, and the forms of operations whose names end in Wait.
//
// If the context of a call that waits ends first, its error comes back. Unless the call
// says otherwise the operation goes on without anybody waiting, and its memory stays the
// library's until the endpoint is closed.
//
// All operations take the same optional parameters; what does not belong to a call
// is refused with ucs.ErrInvalidParam.
//
// # Goroutines
//
// In ThreadModeMulti any goroutine may call a worker and everything that belongs to it
// at any time, without a lock of the caller's. Any number may wait: each is woken by
// the end of what it waits for, and one of them progresses the worker for all. So a
// server may have a goroutine for each request, and needs none for progress.
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
// Offered data and synchronous sends are waited for, as their end is the peer's to tell; but
// where a queue has messages of other peers that nobody takes meanwhile, and the peer does
// nothing for half a second, the data is copied and the send done, or, if that cannot be,
// because the peer may be reading it or it is longer than 16 MiB, the call ends with
// ucs.ErrExceedsLimit and leaves the operation going on, as when its context ends.
// So do calls that wait on an endpoint that was accepted for a listener, which has nothing
// else of this. An endpoint that the application makes for the same peer has none of it.
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
