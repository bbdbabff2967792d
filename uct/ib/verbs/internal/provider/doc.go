// Package provider is the interface between package verbs and the providers. A provider is the
// user-space half of a kernel driver: it knows the layout of a device's queues. Package verbs makes
// the calls to the kernel and keeps track of the objects; a provider owns the memory of their
// queues, and writes and reads the entries. Neither uses types of the other: the common types are
// here.
//
// A provider is a folder beside this one, which registers itself, and one line in
// verbs/providers.go, which imports it.
//
//	subject                                    file
//
//	providers, and the device they get         provider.go
//	objects: Context, CQ, SRQ, QP, AH          object.go
//	methods that a provider does not need      base.go
//	features that a provider may lack          feature.go
//	requests; completions                      wr.go; wc.go
//	errors of queues                           errors.go
//	numbers, service types                     types.go
//
// # Steps of an object
//
//  1. New… is called first. It may return an error. It may change its argument (CQInit, SRQInit,
//     QPInit), and so the request to the kernel, if a device only has queues of certain sizes.
//  2. Data returns the driver-specific request and response of the call that creates the object.
//  3. Attach is called after that call, with the object that the kernel has made. It maps or
//     programs what the response names. It may correct the sizes that the application gets,
//     because the kernel does not know what fits into queues that it did not lay out. If Attach
//     fails, the object is destroyed.
//  4. Detach undoes New and Attach. It is called once the kernel has destroyed the object, and also
//     if Attach has failed or was never called.
//
// The steps of a device are the same: Provider.Open, Data, Attach after the kernel has answered
// GET_CONTEXT, Detach after everything else.
//
// # Goroutines
//
// The rules are those of package verbs: on one QP, one goroutine at a time posts sends and one
// posts receives; one polls a completion queue. These may be three goroutines. Detach, Reset and
// EventTaken may be called on any other goroutine while completion queues are polled. Completions
// that exist when a queue pair is detached or reset can be polled afterwards, with the IDs of the
// posted requests; no others follow.
//
// # Missing features
//
// Context.Lacks reports, with the reason, the features that a provider or its device does not have;
// package verbs then never uses them. The methods themselves refuse requests whose sizes a device
// does not support.
package provider
