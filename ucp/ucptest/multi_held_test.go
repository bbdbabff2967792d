//go:build linux

package ucptest

import "github.com/ucx-go/ucx/ucp"

// heldTag is the tag of the messages of held.
const heldTag ucp.Tag = 0xFEED_0000_0000_0001

// held has a goroutine stay in a callback of the worker. The goroutine calls the functions passed
// to do, until letGo, which waits for its return.
func (s *side) held(ep *ucp.Endpoint) (do func(func()), letGo func()) {
	s.rig.Helper()
	orders, done, over := make(chan func()), make(chan struct{}), make(chan error)
	recv := s.rig.started(s.TagRecv(heldTag, ucp.FullMask, nil, &ucp.RequestParams{
		OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
			for order := range orders {
				order()
				done <- struct{}{}
			}
		},
	}))
	go func() { over <- ep.TagSendWait(s.rig.Context(), heldTag, nil) }()
	do = func(order func()) {
		orders <- order
		<-done
	}
	do(func() {})
	return do, func() {
		s.rig.Helper()
		close(orders)
		if err := <-over; err != nil {
			s.rig.Error(err)
		}
		recv.Free()
	}
}
