package ucp

// streamState is what a worker keeps for streams.
type streamState struct {
	on      bool      // they may be used
	look    bool      // something is waited for, maybe of a peer that is not read
	ready   *stream   // of those with something to read, a ring, the one that is told of next
	stopped []*stream // those because of which a connection is not read
	lent    *chunk    // a list of those in the hands of the application
	free    *chunk    // idle ones
	idle    int       // how many
	most    int       // what a stream may hold before the reading of its connection stops
}

// expect is told that a message of a peer is waited for. Whether of one that is not read
// is looked at in the next round of progress.
func (t *streamState) expect() {
	if len(t.stopped) > 0 {
		t.look = true
	}
}
