// Package identity is what a worker remembers about its peers: their addresses, which of them the
// application trusts, and which endpoints of the two sides belong together. It has no I/O. It
// knows endpoints and connections only as far as Endpoint and Source say; package ucp asks it
// when requests come and when endpoints are made and closed. What a request may claim is decided
// before that, by package admit.
//
// # Peers and identities
//
// A worker address carries a uuid. A uuid is published, so any process can claim it. A worker
// therefore remembers not uuids but peers (Peer), of which several can go by one uuid (the uuid's
// identity). Peers of one uuid are told apart by the entries of their addresses: an entry is a
// transport, a device and an interface (EntryID), and two addresses that have an entry in common
// belong to one peer. Of the addresses in requests the caller passes on only what the kernel has
// verified.
//
//   - A peer is trusted if the application has made an endpoint to it (Peer.Given) or has allowed
//     it (Peer.Allowed). All others are untrusted. The application is trusted with the addresses
//     that it gives, so Table.Given returns the peer of such an address and adds the entries of the
//     address to the peer.
//   - At most maxUntrusted untrusted peers of a uuid are searched. Further ones have endpoints as
//     well, but the application is never given one of those endpoints.
//   - Two peers that turn out to be one are merged (Table.Merge): when an address of the application
//     has all entries of an untrusted peer, or when both have used one connection. Endpoints then
//     move to the peer that remains, which Table reports by the function passed to Init.
//   - A peer is forgotten with its last endpoint, unless the application allows it. An identity is
//     forgotten with its last peer, unless it has given out numbers; of those the last MaxIdle are
//     kept.
//
// # Numbers
//
// The k-th endpoint that one side creates toward the other is paired with the k-th that the other
// side creates; both sides number them from 0 (ucp_ep_match in src/ucp/wireup/ep_match.c of C UCX).
// Peer.TakeNumber numbers an endpoint of the application. An endpoint that waits for its
// counterpart is unmatched (Peer.AddUnmatched). Two things end that: the application creates the
// endpoint with the number, and gets the one that the peer has opened (Peer.Claim), or a wireup
// request of the peer names the number (Peer.Match):
//
//	endpoint that waits under the number    requester's end                        verdict
//	none                                    connected with the endpoint of the     Repeated
//	                                        number, which may have failed
//	none                                    connected with another endpoint here   Connected
//	none                                    any other                              Open
//	one whose counterpart is not known      any                                    Pair
//	one whose counterpart is unconfirmed    any                                    Pair
//	one whose counterpart is confirmed      that counterpart                       Repeated
//	one whose counterpart is confirmed      another                                Contested
//
// A repeated request may mean that its reply has been lost, and the requester waits for another. It has
// the number of the first one. An id under another number may be one that is used again: C UCX uses the
// ids of closed endpoints again.
//
// Contested means that two requesters claim one number. Which of them is the peer cannot be told:
// both are answered, as C UCX does, and the application is given neither endpoint.
//
// # Connections
//
// Messages that name an endpoint act on it only if they come from its peer. A connection belongs to
// one peer (Owner): from the first wireup message that identifies the peer (Owner.Bind), or from
// the first other message, if the caller finds that the connection comes from where the peer is
// (Owner.Set). A connection that names an endpoint of a peer which is elsewhere has an unknown
// owner (Owner.SetUnknown) until a wireup message identifies its own peer. A connection can
// outlive the table's memory of its peer; the next peer of the same uuid may then have it
// (Owner.Forgotten). A peer that first connected with a TLS certificate is not taken for a
// connection without that certificate (Peer.ProvenBy).
//
// # Goroutines
//
// A Table with all that it holds belongs to the goroutine that has the worker.
package identity
