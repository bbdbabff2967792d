package ucp

// StreamReady is an endpoint with unread bytes of its stream.
type StreamReady struct {
	Endpoint *Endpoint
	UserData any // the endpoint's
}

// StreamPoll fills list with endpoints that have unread stream bytes and no posted receive,
// each once, and returns their number. It does not progress the worker. An endpoint is
// listed as long as it has something to read; endpoints that were not listed for the
// longest time come first. Bytes that arrived before the application made the endpoint
// count as well. There may be fewer bytes than an element of the next receive.
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
