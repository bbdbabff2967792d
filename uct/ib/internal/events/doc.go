// Package events distributes the asynchronous events of an RDMA device to the interfaces that they
// concern, and brings results of other goroutines to the goroutine of an interface.
//
// A device has one descriptor for its events. A Desk has it in the event sets of all workers that
// use the device. The worker that wakes first reads all events, and puts each into the Box of each
// interface that the event concerns. A Box wakes the worker of its interface, which takes the events
// out inside progress (Box.Read). Functions that another goroutine posts (Box.Post) run there as
// well, after the events.
//
// The first error of a read means that the device is gone. It is delivered as
// verbs.EventDeviceFatal, and the descriptor then leaves the event sets, because it would stay
// readable.
package events
