// Package mailbox is a transport between the workers of one process, in a module of its own. A
// test of internal/repocheck builds it and runs its tests: it holds that the exported packages
// suffice for a transport, as CONTRIBUTING.md says.
//
// Every iface has a mailbox (box.go): a ring of messages that the endpoints of other ifaces fill
// under a lock, and that the iface empties when it is progressed. A send to a full mailbox is
// refused with ucs.ErrNoResource; the receiver tells senders with pending requests that there is
// room. Puts and gets access registered memory of the process at once (rma.go).
package mailbox
