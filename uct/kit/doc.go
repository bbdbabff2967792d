// Package kit contains the parts of a transport that do not depend on its wire protocol. A
// transport may use them or bring its own: package uct asks only for the interfaces.
//
//   - Handlers is the table of active message handlers behind Iface.SetAMHandler.
//   - Arbiter serves the endpoints with pending requests in turn, behind Endpoint.PendingAdd
//     and PendingPurge. A transport whose endpoints share no resource needs only
//     uct.PendingQueue.
//   - Failures keeps failures of endpoints until progress may report them to
//     IfaceParams.OnError.
//   - Regions is the table of memory that peers may access, for transports that execute
//     one-sided accesses in software; AtomicPostOps and AtomicFetchOps are the atomic
//     operations that such a transport has.
//   - ThisProcess identifies the calling process, for uct.ProcessIface.
//   - Ring is a round-robin list.
//
// Unless a comment says otherwise, the objects belong to the goroutine of their worker.
package kit
