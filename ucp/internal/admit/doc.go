// Package admit decides which wireup requests a worker answers, and which entries of the address in
// a request the worker uses. Gate.Decide decides about a request; a Validator checks only an
// address. Both get the facts about the connection from package ucp, which also carries out the
// Decision: it pauses and drops connections, handles deferred requests again, logs, and counts.
//
// # The threat
//
// A wireup request asks the worker to make an endpoint: to choose lanes toward an address, to
// connect them, and to send a reply. Any process that can reach the worker can send one. The
// sender chooses the uuid and the address in the request freely, and three things follow.
//
// The worker could become a confused deputy. An address may name a process of this machine, a
// file of shared memory, or an IP address with a port. The worker has rights that the sender may
// lack: transports that access the memory of processes would read and write another process of
// the worker's user, and a connection to the loopback device or to an inner network would come
// from behind the firewall.
//
// The sender could impersonate another peer. The uuid of a worker is published, so the sender may
// claim the uuid of a peer that the application is about to communicate with.
//
// The sender could use up the worker's time. A request costs more to answer than to send, and the
// sender can make some look-ups slow: a process may have a million descriptors, and resolving an
// address that does not exist takes until a timeout.
//
// # The order of the checks
//
// The checks run in the order of their cost, so that a refused request costs little:
//
//  1. the rate, which costs an addition. If a source sends requests too often, its connections are
//     not read for a while (Decision.Wait), and are closed once it is far beyond its rate;
//  2. the token, which costs one digest of the request. The proof has come in a message before the
//     request, and is valid only once, even if another check refuses the request;
//  3. the policy, for the peer that the address names. The claim may still be false, but a
//     worker that is closed to the claimed peer is also closed to an impostor;
//  4. the address, which costs system calls, within a time budget for each source;
//  5. the policy again, for the peer that the verified part of the address names. A sender that has
//     falsely claimed the address of a trusted peer is now unknown;
//  6. the network. A request with an address that the system must resolve first is deferred. When
//     it is decided again (Request.Again), it is neither counted nor does it need another proof.
//
// The connection of a refused request is dropped, so that the peer does not wait for a reply.
//
// # Which entries of an address are used
//
// An entry is used only if the kernel confirms it for the connection on which the request came. An
// entry that names a process of this machine is used if this process holds the other end of the
// connection. The process is checked before any object that the entry names is opened. An entry
// that does not tell its process before it is opened is used only if another entry names a process
// that holds the connection. An entry that names an IP address is used if the connection comes from
// that address, or from another address that the application has given together with it. If it is
// an address of this machine, the peer must be on this machine, and the listener at the address
// must belong to the peer's user. Entries without an IP address, such as those of InfiniBand ports,
// are used without a check, because such a network has no better identification of a peer.
//
// Lanes that are connected pairwise may lead to other IP addresses, except those of this machine.
// A peer with several devices has made an endpoint on each, and no data is sent over such a lane
// unless the process at the other end has connected its endpoint with the endpoint of this worker.
// Any other lane must use the device from which the request came, because no message of the peer
// proves that it has the other devices. C UCX has no message to verify them.
//
// Messages through memory of this process are trusted, because only processes of the same user can
// write there, and these can access this process's memory anyway. Messages of a transport that does
// not identify its peers are trusted too. An address that the application gives is not checked.
//
// An honest peer may claim more than is confirmed: C UCX 1.13 lets the routes of its machine
// choose the address that it connects from. Such a request is not refused. Decision.Claimed then
// has the claimed entries. If no lane leads to a verified entry, the peer gets its reply on the
// connection of the request, and no lane is connected. A claim that no honest peer makes is
// reported (Finding.Contradicts) and is otherwise treated in the same way.
package admit
