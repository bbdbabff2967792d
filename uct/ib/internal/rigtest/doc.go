// Package rigtest is the shared code of the tests of the transports over RDMA devices: networks of
// devices without a kernel, whose work is done inside the progress of the workers (Rig), the
// conformance suite in the configurations of a transport (Transport), the devices of this machine
// and of the virtual machine that "make test-rxe" runs (Transport.Across), scripted peers (End),
// and checks that hold for every endpoint that has failed.
//
// A scripted peer is made of verbs. It sends what a test wants and nothing else, so it stands for
// hostile and for broken peers; the packets that it sends are those of the transport, and belong to
// the transport's tests.
package rigtest
