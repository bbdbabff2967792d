// Package perfoob speaks the out-of-band protocol of ucx_perftest: what a
// client and a server say to each other over a TCP connection of their own,
// beside the transport under test.
//
// The protocol (openucx/ucx src/tools/perf/perftest.c, perftest_context.h and
// lib/libperf.c) is a dump of C structures without framing or version. The
// client sends its parameters, then both sides exchange endpoint information,
// and from there on only barriers and statuses. The parameters have 264 bytes
// in release 1.13 and 584 in 1.22, so C programs of the two cannot talk; a
// server here tells them apart by their content, a client has to be told.
//
// It assumes a little-endian peer with 8-byte pointers. What arrives is
// untrusted: it is bounded and checked before it is used.
package perfoob
