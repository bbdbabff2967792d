package ucp

import "time"

// amEntry is what there is for an id.
type amEntry struct {
	fn    AMHandler
	queue *AMQueue // instead
	flags AMHandlerFlags
}

// amState is what a worker keeps for active messages.
type amState struct {
	on        bool
	maxHeader int
	table     [256]*[256]amEntry // by the halves of the id

	free     *AMMessage // idle objects
	idle     int
	rested   uint8
	resting  [quarantine]*AMMessage // released lately
	borrowed amList                 // kept, in memory of transports
	queues   []*AMQueue

	over   bool          // too much is kept of messages through shared memory
	warned bool          // a message without handler was logged
	warnAt time.Duration // when that may be again
}

// set sets what there is for an id.
func (s *amState) set(id uint16, e amEntry) {
	t := s.table[id>>8]
	if t == nil {
		t = new([256]amEntry)
		s.table[id>>8] = t
	}
	t[id&0xFF] = e
}

// find returns what there is for an id, nil if there is nothing.
func (s *amState) find(id uint16) *amEntry {
	t := s.table[id>>8]
	if t == nil {
		return nil
	}
	e := &t[id&0xFF]
	if e.fn == nil && e.queue == nil {
		return nil
	}
	return e
}
