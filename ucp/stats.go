package ucp

// Stats are the counters of a worker. They are always on.
type Stats struct {
	TagSends    uint64 // tagged messages sent or offered
	TagRecvs    uint64 // receives posted
	StreamSends uint64 // pieces of streams sent
	StreamRecvs uint64 // stream receives posted, or done in the call
	AMSends     uint64 // active messages sent or offered
	AMRecvs     uint64 // active messages given to a handler, or taken out of a queue
	AMNoHandler uint64 // active messages that came for an id without one
	EagerShort  uint64 // messages sent by each protocol
	EagerBcopy  uint64
	EagerZcopy  uint64
	EagerMulti  uint64
	RndvSends   uint64
	RndvPut     uint64 // rendezvous answered by writing to the receiver
	RndvAM      uint64 // rendezvous answered by messages
	RndvRecvs   uint64
	RndvGet     uint64 // of those, read from the sender's memory
	RndvPtr     uint64 // copied from it, mapped here
	Unexpected  uint64 // messages that found no receive
	Pending     uint64 // sends that had to wait for the transport
	Malformed   uint64 // messages that made no sense
	Evicted     uint64 // connections dropped because they made us hold the most
	Refused     uint64 // times that there was no room for what a peer brought or asked for, or it was not its own to ask
	Paused      uint64 // connections that were not read for a while, because they did not read
	HeldBack    uint64 // peers whose questions waited in queues for a while, because they did not read what they were answered
	Stopped     uint64 // connections that were not read for a while, because the application did not read a stream
	Abandoned   uint64 // messages whose connection broke before they were complete
	Dropped     uint64 // messages for endpoints or requests that are gone
	Failed      uint64 // requests that ended with an error
	Failures    uint64 // endpoints that failed
	Requests    uint64 // request objects made
	Puts        uint64 // one-sided operations started
	Gets        uint64
	Atomics     uint64
	Served      uint64 // one-sided operations of peers carried out by messages
	Denied      uint64 // those refused: the memory was not registered for it
	SyncAcks    uint64 // acknowledgements of synchronous sends, sent
	WireupSent  uint64 // wireup messages
	WireupRecvd uint64

	Endpoints       int // open endpoints, those opened by peers included
	UnexpectedBytes int // memory held by messages without a receive
	OwedBytes       int // memory of answers that peers do not read, and of what the application sends over endpoints that they have opened
	Sources         int // connections that made the worker hold something
}

// countSent counts a message by the way that it has gone.
func (r *Request) countSent(way *uint64) {
	*way++
	if sends := r.form.sends; sends != nil {
		*sends(&r.w.stats)++
	}
}
