package ucp

// Stats are the counters of a worker. They are always on.
type Stats struct {
	TagSends    uint64 // tagged messages sent or offered
	TagRecvs    uint64 // receives posted
	StreamSends uint64 // pieces of streams sent
	StreamRecvs uint64 // stream receives posted, or done in the call
	AMSends     uint64 // active messages sent or offered
	AMRecvs     uint64 // active messages given to a handler, or taken out of a queue
	AMNoHandler uint64 // active messages that arrived for an id without a handler
	EagerShort  uint64 // messages sent by each protocol
	EagerBcopy  uint64
	EagerZcopy  uint64
	EagerMulti  uint64
	RndvSends   uint64
	RndvPut     uint64 // rendezvous served by writing to the receiver
	RndvAM      uint64 // rendezvous served by messages
	RndvRecvs   uint64
	RndvGet     uint64 // rendezvous received by reading the sender's memory
	RndvPtr     uint64 // rendezvous received by copying from the sender's memory, mapped here
	Unexpected  uint64 // messages that arrived before a matching receive
	Pending     uint64 // sends that had to wait for the transport
	Malformed   uint64 // malformed messages
	Evicted     uint64 // connections dropped because the worker held the most for them
	Refused     uint64 // requests of peers refused: no room, or not the peer's to ask
	Paused      uint64 // connections not read for a while, because the peer did not read
	HeldBack    uint64 // peers whose requests waited in queues for a while, because the peer did not read its replies
	Stopped     uint64 // connections not read for a while, because the application did not read a stream
	Abandoned   uint64 // messages whose connection broke before they were complete
	Dropped     uint64 // messages for endpoints or requests that no longer exist
	Failed      uint64 // requests that ended with an error
	Failures    uint64 // endpoints that failed
	Requests    uint64 // request objects made
	Puts        uint64 // one-sided operations started
	Gets        uint64
	Atomics     uint64
	Served      uint64 // one-sided operations of peers carried out by messages
	Denied      uint64 // one-sided operations of peers refused: the memory was not registered for them
	SyncAcks    uint64 // acknowledgements of synchronous sends that were sent
	WireupSent  uint64 // wireup messages
	WireupRecvd uint64

	Endpoints       int // open endpoints, including those that peers opened
	UnexpectedBytes int // bytes of messages without a receive
	OwedBytes       int // bytes of replies that peers have not read, including other sends over endpoints that peers opened
	Sources         int // connections that made the worker hold something
}

// countSent counts a message by the way that it has gone.
func (r *Request) countSent(way *uint64) {
	*way++
	if sends := r.form.sends; sends != nil {
		*sends(&r.w.stats)++
	}
}
