// Package connect is the handshake by which two endpoints agree on their lanes. It holds no lanes
// and does no I/O. A value of type End is the state of the handshake of one endpoint, and a table
// (table.go) gives the next stage and the duties for each event. The package also decides which
// devices a connection by socket address uses (Devices), and which transport endpoints of the two
// sides are connected with each other (Lanes). Package ucp reports the events and carries out the
// duties.
//
// Most transports connect an endpoint with an interface of the other side. Nothing has to be agreed
// on for such lanes: only the ids of the two endpoints are exchanged. Other transports connect a
// transport endpoint with exactly one transport endpoint of the other side (uct.Paired). Nothing
// can be sent on such a pairwise lane before the transport endpoints on both sides know each
// other's address.
//
// # Endpoints made by worker address
//
// The two sides are equal. Wireup messages travel over an auxiliary lane, which needs no agreement,
// until the lanes are connected:
//
//	REQUEST ──►   the lanes, and under the number of each the address of its transport endpoint
//	              the other side chooses lanes toward that address, makes its transport
//	              endpoints, and connects them
//	      ◄── REPLY   their addresses, each under the number that the requester gave the lane
//	the requester connects its transport endpoints
//	ACK ──►       over the lane for messages, which is one of them
//
// Operations wait for the lanes meanwhile. If both sides send a request at once, the request of the
// worker with the smaller uuid counts, and the other request is not answered. Endpoints of one
// worker are an exception: both requests are answered, and no ACK is needed. Without pairwise lanes
// the same messages only exchange the ids, and no ACK is sent unless REPLY_RECONFIG asks for it.
//
// # Connections by socket address
//
// A connection manager carries the first data that client and server exchange. The first lanes,
// agreed on by that data, use the device that the connection goes over. Over these lanes the server
// then names all of its resources, and the two sides agree on better lanes, as C UCX does with
// UCX_CM_USE_ALL_DEVICES=y:
//
//	client                                              server
//	   data: transport endpoints of its lanes ──►          the application accepts
//	   connects its transport endpoints    ◄── data: its transport endpoints, connected
//	   notification ──►
//	                                       ◄── PRE_REQUEST: all of its resources
//	   REQUEST: lanes, their transport endpoints ──►
//	                                       ◄── REPLY: its transport endpoints
//	   ACK ──►
//
// First lanes that are chosen again are kept. With UCX_CM_USE_ALL_DEVICES=n there are no messages
// after the notification.
//
// # The table
//
// The first rule that applies decides. RECONFIG is the message REPLY_RECONFIG. Conditions and
// duties are explained at Facts and Duty. A message that no rule expects is counted as dropped.
//
//	role    stage               event            if                next       duties
//	peer    idle                loopback         lanes             open       connect, start
//	peer    idle                loopback                           open
//	peer    idle                repeat           not repeated      same
//	peer    idle                need             repeated          requested  REQUEST, again
//	peer    idle                need                               requested  REQUEST
//	peer    requested, crossed  repeat           not exhausted     same       REQUEST
//	peer    requested, crossed  timed out        lanes             same       retry, REQUEST
//	peer    requested           duty failed                        idle
//	peer    crossed             lost             larger uuid       failed     EP_REMOVED
//	peer    idle                opened           lanes             replied    connect, REPLY
//	peer    idle                opened                             open       REPLY
//	peer    all                 REQUEST          dead              same       EP_REMOVED
//	peer    requested, crossed  REQUEST          larger uuid       crossed
//	peer    requested           REQUEST          lanes, same uuid  both       connect, REPLY
//	peer    requested, crossed  REQUEST          not lanes         crossed    REPLY
//	peer    all but failed      REQUEST          lanes             replied    replace, connect, REPLY
//	peer    all but failed      REQUEST                            open       REPLY
//	peer    requested, crossed  REPLY, RECONFIG  lanes             open       connect, ACK, start
//	peer    both                REPLY            lanes             open       start
//	peer    both                RECONFIG         lanes             open       ACK, start
//	peer    requested, crossed  REPLY                              open
//	peer    requested, crossed  RECONFIG                           open       ACK
//	peer    both, replied       ACK              lanes             open       start
//	peer    replied             lost                               failed     EP_REMOVED
//	peer    both, replied       auxiliary lost                     same       ignore, check
//	peer    both, replied       tick             not overdue       same       skip check
//	peer    both, replied       tick             can ask           same       ask, skip check
//	peer    replied             tick             no auxiliary      failed     EP_REMOVED, fail: ACK
//	client  starting            data             all devices       joined     connect, notify
//	client  starting            data                               open       connect, notify, start
//	client  joined              PRE_REQUEST                        requested  replace, REQUEST
//	client  requested           REPLY, RECONFIG  lanes             open       connect, ACK, start
//	client  open                PRE_REQUEST      not all devices   failed     drop, fail: devices
//	server  starting            notified         all devices       joined     PRE_REQUEST
//	server  starting            notified                           open       start
//	server  joined              REQUEST                            replied    replace, connect, REPLY
//	server  replied             ACK              lanes             open       start
//	server  replied             auxiliary lost                     same       ignore
//	server  starting, replied   tick                               same       skip check
//	all     all but failed      duty failed                        failed
//	all     all                 a message                          same       drop
//
// A failed endpoint (dead) answers a request by EP_REMOVED, because the requester would wait for a
// reply otherwise. For the same reason an endpoint that ends in stage crossed sends EP_REMOVED if
// the other side relies on the request of this side (larger uuid), and so does one that ends before its
// reply is acknowledged: the reply may be lost with it.
//
// A lane of an endpoint may fail during the handshake. A request that was sent to a device that
// does not answer is repeated over other devices, because nothing else was sent before (timed out).
// The auxiliary lane of a side that has sent REPLY may end before ACK arrives: the other side
// closes it as soon as it has received REPLY. Therefore its loss is no failure, and the lanes are
// checked instead. If it carried REPLY and the lanes report no failure, the keepalive decides after
// a few rounds (tick): ACK will then never come. While messages can go over the auxiliary lane, or another
// that is not pairwise, ACK may only be late, because the other side is busy. Its transport endpoints are
// then not connected yet, and a check of the pairwise lanes would find nobody. It is therefore asked whether
// its endpoint still exists.
//
// # UCX_CM_USE_ALL_DEVICES
//
// With y the server sends PRE_REQUEST after the notification, and the client waits for it. With n
// neither happens. C UCX follows its own setting: a client with y waits forever for a server with
// n, and a client with n aborts when a server with y sends PRE_REQUEST
// (ucp_wireup_process_pre_request in src/ucp/wireup/wireup.c). This library does what the other
// side expects, if its connection data shows what that is:
//
//	data                                        sender                  setting
//	with resource indices                       1.14 and later          y
//	readable with and without indices           this library            y
//	no indices, no capabilities of domains      1.19 and later, or this n
//	no indices, layout v2 of a client           1.16 and later          n
//	no indices, else                            1.13 with either, or 1.14 and 1.15 with n
//
// For data of the last row the setting of this side decides. It also decides for a client's data in
// layout v2 if UCX_PEER_RELEASE says that peers are of release 1.13, where v2 is not the default.
//
// # Matching of lanes
//
// Each side numbers its lanes by itself. The transport endpoints are paired as follows: the k-th
// transport endpoint at an entry of the request's address is for the k-th lane chosen toward that
// entry (ucp_wireup_match_p2p_lanes in src/ucp/wireup/wireup.c), not counting those that are
// connected already (Lanes.Match). In a reply, and in the data of a server, the transport endpoints
// have the numbers that this side has given to its lanes (Lanes.Target).
//
// # Goroutines
//
// The values of this package belong to the goroutine that has the worker.
package connect
