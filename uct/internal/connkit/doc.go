// Package connkit is the part of a connection manager that does not depend on the transport. The
// managers of tcp (uct/tcp/internal/sockcm) and of RDMA devices (uct/ib/cm) embed its types. It
// calls no kernel and knows no wire format: the transport reports events to it, and it decides
// which callbacks of the application to call and when.
//
// # Endpoints
//
// An Endpoint goes through the phases in order, and may skip some:
//
//	Opening ──Succeed──► Connected ──Fail──► Over ──► Closed
//	   │                                      ▲
//	   └─────────────────Fail─────────────────┘       Close, from any phase
//
// The end of phase Opening makes one callback: OnConnected at a client, OnNotify at a server. The
// end of phase Connected makes one: OnDisconnected. An endpoint that failed in phase Opening gets
// no OnDisconnected, and a closed endpoint gets no callback.
//
// Callbacks run inside Worker.Progress alone. An error inside a call of the application is
// therefore stored (FailLater), and the next Manager.Progress reports it; until then Manager.Arm
// refuses to let the worker sleep. Of several stored errors the first is reported.
//
// A connection that was established keeps its socket or its ID in phase Over, so that the peer
// learns of the end when the application closes the endpoint. A connection that was never
// established is closed before the callback (Conn.Ending).
//
// # Requests
//
// A Request is a client's request for a connection. It waits until the application accepts or
// rejects it, or its listener drops it. It is consumed once, by any goroutine: only the list of a
// Listener has a lock. The rest of a manager belongs to its worker's goroutine.
//
// Any host that reaches the listener can send requests, so the list is bounded by the backlog. If
// it is full, a request of the source with the most requests is dropped for a source with fewer
// (ledger.Backlog). All resources of this process that a client occupies are charged to the
// client's source (Charge) until the application has consumed the request. A refusal is counted,
// and logged once a minute at most.
//
// The steps before a request differ: over tcp a client may connect and send nothing, so sockcm
// limits and evicts such clients itself; over RDMA the request is the first packet.
package connkit
