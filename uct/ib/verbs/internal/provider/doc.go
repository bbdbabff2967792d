// Package provider is the seam between package verbs and those who know the queues
// of a device: the user's half of a kernel driver. Package verbs makes the calls and
// keeps the objects; a provider has the memory of their queues and writes and reads
// what is in it. Neither knows the other's types: what crosses is here.
//
// A provider is a folder beside this one, which registers itself, and one line in
// verbs/providers.go, which imports it.
//
// # Steps of an object
//
// New… is asked first. It may refuse, and may change in the Init what is asked of the
// kernel, for a device that only has queues of certain sizes. Data goes with the call
// that creates the object, either way. After the call Attach is given what the kernel
// has made, maps or programs what the answer says, and may correct what the user is
// told: the kernel does not know what fits into queues that it did not lay out. It
// may fail, and the object is destroyed again. Detach undoes New and Attach; it comes
// once the kernel has no such object any more, and also where Attach has failed or was
// never called.
//
// Of the device it is the same: Provider.Open, Data, Attach after the kernel has
// answered GET_CONTEXT, Detach behind everything else.
//
// # Goroutines
//
// Attributes of QP are as in package verbs: one goroutine at a time posts sends, one
// posts receives, one polls a completion queue. They may be three. Detach, Reset and
// EventTaken may come on any other while completion queues are polled. Completions that
// were there before a queue pair is detached or reset are polled after it, with the IDs
// of what was posted; others do not come.
//
// # Refusing
//
// What a provider or its device cannot do at all it says by Context.Lacks, with the
// reason, and is not asked for. What depends on the numbers its methods refuse.
package provider
