package ucp

// StreamReady is an endpoint with unread bytes of its stream.
type StreamReady struct {
	Endpoint *Endpoint
	UserData any // the endpoint's
}

// StreamPoll lists endpoints with unread bytes for which no receive is posted, each once,
// as many as list has room for, and returns how many. It does not progress. An endpoint is
// listed for as long as there is something to read; those that were not listed for the
// longest come first. What came before the application had made the endpoint counts as
// well. The bytes may be less than an element of the next receive.
func (w *Worker) StreamPoll(list []StreamReady) (int, error) {
	if w.missing() {
		return 0, errMissing("Worker.StreamPoll", w == nil)
	}
	w.enter()
	n, err := w.pollStreams(list)
	w.exit()
	return n, err
}

func (w *Worker) pollStreams(list []StreamReady) (n int, err error) {
	if !w.stream.on {
		return 0, w.lacks("StreamPoll", FeatureStream)
	}
	first := w.stream.ready
	for s := first; s != nil && n < len(list); n++ {
		list[n] = StreamReady{Endpoint: s.ep, UserData: s.ep.userData}
		s = s.after
		if w.stream.ready = s; s == first {
			return n + 1, nil
		}
	}
	return n, nil
}
