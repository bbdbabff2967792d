// Package ucptest holds the tests of package ucp that use only its exported API: the
// suite that every transport passes, the harness that drives several workers from one
// goroutine, properties of whole programs (allocations, system calls, limits of the
// machine, other users), and message traces. It has test files only.
//
// Tests of ucp's internals, and tests with a peer that violates the protocol, are beside
// ucp's files.
//
// # Message traces
//
// The files testdata/*.txt show the messages between workers, one file for each protocol
// or event. To learn how a protocol works, read its file. After changing a protocol run
//
//	go test ./ucp/ucptest -run TestTraces -update
//
// and check that every difference is intended.
//
// A file has blocks, separated by empty lines: remarks, commands, and after "----" the
// results of the commands. Workers a and b use a simulated transport, the "ground",
// whose capabilities a setup command chooses; it counts rounds of progress instead of
// time. Endpoint ab leads from a to b. The commands are those of the table verbs in
// trace_command_test.go. The command run progresses all workers in turn until nothing
// happens any more; the command step progresses one worker for one round.
//
//	recv r1 b 20000            b receives up to 20000 bytes; this is r1
//	send s1 ab 20000           a sends 20000 bytes by endpoint ab
//	run
//	----
//	b: r1: tag receive         r1 is under way; the protocol that carries it
//	#3 a→b open0 bcopy RNDV_RTS tag=0x1 epid=ep1@b reqid=req1@a address=s1 size=20000 op=tag key=empty (tag rndv)
//	a: s1: tag rndv
//	b takes #3                 worker b receives message 3, and reacts:
//	#4 b→a open0 get zcopy 20000 bytes at s1 (tag rndv get zero-copy)
//	b: r1: tag rndv get zero-copy
//	ended, ok: #4              the transport is done with 4
//	#5 b→a open0 bcopy RNDV_ATS reqid=req1@a status=ok size=20000 (tag rndv get ats)
//	b: r1 is over: ok, tag 0x1, 20000 bytes, as sent
//
// The line of #3 says that message 3 goes from a to b on device open0, copied into a buffer
// of the transport, with message id RNDV_RTS. The fields of its header follow, named as in
// package proto, then the bytes after the header, and the protocol that sent it. An access
// to memory has an address and a length instead of a message id. ep1@b is an endpoint id and
// req1@a a request id, each with the worker that assigned it; s1 is the memory of that
// operation. Ids, addresses and worker ids are random, so the trace replaces them by names,
// numbered in the order of their appearance.
//
// A peer that "speaks for itself" is not a worker: it sends exactly the messages in the
// commands, and its traces show how workers react. Another test checks that each message of
// proto and each protocol of ucp appears in a file.
package ucptest
