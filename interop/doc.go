// Package interop tests this module against C UCX, process against process.
//
// A peer is a program that runs operations on command. There are two kinds: testdata/cpeer, over
// the ucp.h of a C installation, and gopeer, over package ucp. The tests start two peers, connect
// them to each other, give them matching commands and compare the receiver's report with the
// message that the sender was told to send. Run a peer by hand to see what it does.
//
// The result is a matrix: operations, sizes and directions against C releases, settings and network
// devices. CPEERS=/prefix1:/prefix2 names C installations to test beside the distribution's. With
// -short a small part runs. A case that C UCX does not support is shown as "uns". unable_test.go
// lists the cells of these cases with C's status: an unsupported case in another cell is a failure,
// and so is a listed cell that works.
//
// A separate table, testdata/endings.txt, describes how operations end with their endpoint: for
// each operation, in each of its phases, and for each way in which either side can end the
// endpoint, the behavior of C with C, and of this module. TestEndings runs a part of it, or with
// FULL_TESTS all, and compares; TestEndingReasons requires a reason for each difference from C.
//
// TestInstructions (make bench-insn) does without peers: it counts the instructions of operations
// between two workers of one process, in counted and in the C program of testdata/counted.
//
// # The protocol of the peers
//
// The peer first prints "ready" and its name, "Go" or "C" with the release. Every
// command is one line and gets one line in reply: "ok", perhaps with values, or
// "err" and a reason, or "timeout" if a time limit is an argument. Numbers are
// decimal or 0x-hexadecimal. While a peer waits for a command it makes progress.
//
//	address                              ok ADDRESS
//	connect EP none|peer ADDRESS         ok
//	send REQ EP TAG SIZE SEED LAYOUT async|sync
//	                                     ok
//	recv REQ TAG MASK SIZE LAYOUT        ok
//	probe TAG MASK keep|take MS          ok TAG LENGTH, or timeout
//	mrecv REQ SIZE LAYOUT                ok; receives the message taken last
//	wait REQ SEED MS                     ok STATUS, or for receives
//	                                     ok STATUS TAG LENGTH VERDICT, or timeout
//	sleep REQ MS                         ok STATUS, or timeout; waits for a send
//	                                     without spinning; Go only
//	cancel REQ                           ok
//	flush REQ worker|EP                  ok
//	close REQ EP flush|force             ok
//	failure EP                           ok STATUS; the error handler's
//	recvby TAG SIZE SEED US              ok STATUS TAG LENGTH VERDICT; receives with
//	                                     a context that ends after so many
//	                                     microseconds; VERDICT of a canceled receive
//	                                     is none, or part if some of the message had
//	                                     arrived; Go only
//	srecvby EP SIZE SEED some|all US     as recvby, of the stream; Go only
//	amrecvby SIZE SEED US                as recvby, the kept data in hand; Go only
//	untouched                            ok NUMBER, of buffers of receives canceled
//	                                     since the last call, if nothing has written
//	                                     to any of them since; Go only
//	thresholds EP                        ok SIZE…, from which another protocol is used
//	                                     for tagged messages; Go only
//	failed EP MS                         ok STATUS, or timeout; waits for the failure
//	pause US                             ok NANOSECONDS, the time of day after as many
//	                                     microseconds of progress without sleep
//	ends                                 ok COUNT, of endpoints of all kinds; Go only
//	transports EP                        ok TRANSPORT/DEVICE…, of each lane; Go only
//	progress MS                          ok, after as many milliseconds
//	map MEM SIZE SEED own|new            ok ADDR KEY; memory of the program, or
//	                                     allocated by UCX; SEED 0: filler bytes
//	unmap MEM                            ok
//	check MEM SEED LENGTH                ok VERDICT; filler bytes behind LENGTH
//	word MEM OFFSET SIZE                 ok VALUE
//	setword MEM OFFSET SIZE VALUE        ok
//	unpack RKEY EP KEY                   ok
//	release RKEY                         ok
//	put REQ EP RKEY ADDR SIZE SEED       ok
//	get REQ EP RKEY ADDR SIZE            ok; wait replies as for receives
//	atomic REQ EP RKEY ADDR SIZE OP OPERAND REPLY post|fetch
//	                                     ok; wait for a fetching one replies
//	                                     ok STATUS OLD SIZE same
//	fence                                ok
//	handle ID receive|keep|refuse|drop|none
//	                                     ok; sets what the handler of an id does with
//	                                     the data of active messages; refuse returns
//	                                     UCS_ERR_OUT_OF_RANGE
//	amlimit                              ok LENGTH, of the longest header
//	am REQ EP ID HEADER SIZE SEED LAYOUT FLAGS
//	                                     ok; FLAGS are plain, or some of reply,
//	                                     eager, rndv and copy with commas; the
//	                                     header is HEADER bytes of the contents
//	                                     behind the data
//	amnext EP SEED MS                    ok ID HEADER LENGTH here|offered
//	                                     plain|reply VERDICT, or timeout; takes the
//	                                     oldest arrived message in hand; VERDICT
//	                                     is of its header; its reply endpoint, if
//	                                     there is one, becomes EP
//	amdata SEED MS                       ok STATUS 0 LENGTH VERDICT, or timeout; the
//	                                     data of the message in hand, received by
//	                                     its handler or kept; releases it
//	amrecv REQ SIZE LAYOUT               ok; receives the kept data in hand
//	amdrop                               ok; releases the message in hand
//	ssend REQ EP SIZE SEED LAYOUT        ok; to the stream
//	srecv REQ EP SIZE LAYOUT some|all    ok; of the stream; wait replies as for
//	                                     receives, with the tag 0
//	sdata EP SEED MS                     ok STATUS 0 LENGTH VERDICT, or timeout; the
//	                                     next bytes of the stream, without a copy
//	spoll MS                             ok EP…, those with unread streams, or timeout
//	use WORKER                           ok; commands use worker 0 or 1 from now on
//	hold                                 ok; until the next command the peer makes no progress
//	retire                               ok; releases the kept active messages and
//	                                     destroys worker 1 as it is: closes no endpoint,
//	                                     waits for nothing; then worker 0 is used
//	shutdown MS                          ok, or timeout; closes the endpoints of worker 1 by
//	                                     flush, and then retires it
//	forget                               ok; frees the requests that worker 1 has left
//	listen HOST:PORT                     ok HOST:PORT; port 0 for any
//	unlisten                             ok
//	dial EP none|peer HOST:PORT plain|id ok; connects, and with id sends the client id
//	                                     PEER_CLIENT_ID of the environment
//	client MS                            ok HOST:PORT ID, or timeout; takes the oldest
//	                                     waiting client in hand
//	accept EP none|peer                  ok; the client in hand
//	reject                               ok
//	sockets EP                           ok LOCAL REMOTE; socket addresses
//	shutdownep EP MS                     ok STATUS WORD…, the text of the error; with a
//	                                     context that ends after so many
//	                                     milliseconds; Go only
//	exit                                 ok
//
// EP, REQ, MEM and RKEY are small numbers that the driver chooses. A command that starts an
// operation replies at once, also when the operation fails; wait returns the operation's status, a
// number of ucs_status_t, and frees REQ. The message or client in hand is the one that the last
// amnext or client has taken. ADDRESS and KEY, a packed remote key, are hexadecimal.
//
// LAYOUT is the layout of the message in memory: contig, new (contiguous and allocated by UCX),
// generic (a user-defined datatype) or iovN, N pieces of which the first is empty, the last takes
// the remainder, and guard bytes separate all of them. SEED selects the contents of a message: the
// little-endian words of a SplitMix64 generator; SEED+OFFSET selects those from byte OFFSET on.
// VERDICT compares the received message with the contents: "same", "differs@OFFSET", or
// "overrun@OFFSET" for a byte that was changed outside the message.
package interop
