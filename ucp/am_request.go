package ucp

import "github.com/ucx-go/ucx/ucp/internal/bufpool"

// amRequest is what a request keeps for the sending of an active message.
type amRequest struct {
	id     uint16
	flags  AMSendFlags
	header []byte // the user's, or what was copied of it
	copied []byte // pooled memory behind that
	tail   []byte // pooled memory of the tails of all packets, where they are not copied
}

// letGo gives back the memory.
func (s *amRequest) letGo(pool *bufpool.Pool) {
	if s.copied != nil {
		pool.Put(s.copied)
		s.copied = nil
	}
	if s.tail != nil {
		pool.Put(s.tail)
		s.tail = nil
	}
	s.header = nil
}

// copyHeader makes the request independent of the user's header.
func (s *amRequest) copyHeader(pool *bufpool.Pool) {
	if len(s.header) > 0 && s.copied == nil {
		s.copied = append(pool.Get(len(s.header)), s.header...)
		s.header = s.copied
	}
}
