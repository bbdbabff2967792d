// Package ucptest holds the tests of package ucp that use only its exported API: the
// suite that every transport passes, the harness that drives several workers from one
// goroutine, properties of whole programs (allocations, system calls, limits of the
// machine, other users), and conversations. It has test files only.
//
// Tests of ucp's internals, and tests with a peer that violates the protocol, are beside
// ucp's files.
//
// # Conversations
//
// The files testdata/*.txt show the messages between workers, one file for a protocol
// or an event. To learn how a protocol works, read its file. After changing a protocol
// run
//
//	go test ./ucp/ucptest -run TestTraces -update
//
// and check that every difference is intended.
//
// A file has blocks, separated by empty lines: remarks, commands, and after "----" the
// results of the commands. Workers a and b use a simulated transport, the "ground",
// whose capabilities a setup chooses; it has rounds of progress instead of
// time. Endpoint ab leads from a to b. The commands are those of the table verbs in
// trace_command_test.go. A run progresses all sides in turn until nothing happens
// any more, a step one side for one round.
//
//	recv r1 b 20000            b receives up to 20000 bytes; this is r1
//	send s1 ab 20000           a sends 20000 bytes by endpoint ab
//	run
//	----
//	b: r1: tag receive         r1 is under way; the protocol that carries it
//	#3 a→b open0 bcopy RNDV_RTS tag=0x1 epid=ep1@b reqid=req1@a address=s1 size=20000 op=tag key=empty (tag rndv)
//	a: s1: tag rndv
//	b takes #3                 b's worker is given message 3, and reacts:
//	#4 b→a open0 get zcopy 20000 bytes at s1 (tag rndv get zero-copy)
//	b: r1: tag rndv get zero-copy
//	ended, ok: #4              the transport is done with 4
//	#5 b→a open0 bcopy RNDV_ATS reqid=req1@a status=ok size=20000 (tag rndv get ats)
//	b: r1 is over: ok, tag 0x1, 20000 bytes, as sent
//
// The line of #3 says: a's message 3 goes to b on device open0, copied into a buffer of the
// transport, with message id RNDV_RTS; the fields of its header follow as package
// proto has them, then the bytes behind it, and the protocol that sent it. Access to
// memory has address and length instead of an id. ep1@b is an endpoint id and req1@a
// a request id, each with the side that gave it out; s1 is the memory of that
// operation. Ids, addresses and worker ids are random: the names are given in the
// order in which they are seen.
//
// A peer that "speaks for itself" is no worker: it sends what the commands spell out
// and shows what workers make of it. Another test sees to it that each message of
// proto and each protocol of ucp is in a file.
package ucptest
