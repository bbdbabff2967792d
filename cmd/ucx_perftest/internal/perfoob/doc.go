// Package perfoob implements the out-of-band protocol of ucx_perftest: the messages that a client
// and a server exchange over a separate TCP connection, beside the transport under test.
//
// The protocol (openucx/ucx src/tools/perf/perftest.c, perftest_context.h and lib/libperf.c) is a
// dump of C structures without framing or version. The client sends its parameters, then both sides
// exchange endpoint information, and after that only barriers and statuses. The parameters have 264
// bytes in release 1.13 and 584 in 1.22, so C programs of the two releases cannot communicate. A
// server here detects the release from the content of the parameters; a client must know the
// server's release.
//
// It assumes a little-endian peer with 8-byte pointers. Received data is untrusted: it is bounded
// and checked before it is used.
package perfoob
