package ucp

// protocol is one way to carry out an operation. It is a value without state: what
// it keeps between its steps is in the request. Its functions are re-entered at the
// stage stored there and never block. Embed basics for what it has nothing special
// to do about.
type protocol interface {
	about() protocolInfo

	// progress sends what can be sent. nil: nothing more to send now, the
	// request is finished or waits for a completion or a message;
	// ucs.ErrNoResource: queue it; any other error aborts the request.
	progress(r *Request) error

	// completed is told that the transport is done with everything sent.
	completed(r *Request, err error)

	// pack writes the message or header being sent; unpack takes bytes that the
	// transport has read.
	pack(r *Request, dst []byte) int
	unpack(r *Request, src []byte)

	// abort ends the request before its time: it cannot go on, or its endpoint has
	// failed. Parts of it may still be with the transport.
	abort(r *Request, err error)

	// release gives back what the protocol took, at the end of the operation,
	// whose result is in r.err. What every request may hold goes by itself.
	release(r *Request)
}

// protocolInfo describes a protocol.
type protocolInfo struct {
	name  string
	kind  protocolKind
	needs needs // what it cannot start without
}

// protocolKind says what part of a conversation a protocol plays: which messages of
// the peer are for a request that it carries out.
type protocolKind uint8

const (
	kindControl  protocolKind = iota // a message of the library's
	kindEager                        // a message that goes at once
	kindOffer                        // a rendezvous, sending side: the peer may ask for data
	kindWrite                        // the same, while data is on its way
	kindAsk                          // a rendezvous, receiving side: waits for data
	kindRead                         // the same, reading the data itself
	kindAccess                       // a one-sided operation that goes straight to the peer's memory
	kindMessages                     // one by messages that are answered by number only
	kindGet                          // one that is answered with data
	kindFetch                        // an atomic one that is answered with a word
	kindAnswer                       // the answer to one of the peer's
	kindFlush
	kindClose // a flush after which the endpoint is released
)

// basics is what most protocols do alike.
type basics struct{}

func (basics) completed(r *Request, err error) { r.finish(err) }
func (basics) pack(*Request, []byte) int       { return 0 }
func (basics) unpack(*Request, []byte)         {}
func (basics) release(*Request)                {}

// abort ends the request; if parts of it are with the transport, their completion
// does.
func (basics) abort(r *Request, err error) {
	if r.comp.Count > 1 {
		r.comp.Done(err)
		return
	}
	r.finish(err)
}
