// Package simnet is a cluster in a process: hosts, processes and workers of the real library under
// simulated time and faults, deterministic from a seed. It needs the build tag simulate (package
// platform).
//
// # The world
//
// A World has hosts, and hosts have processes. Each process has goroutines, of which one of the whole
// world runs at a time: the world chooses it at random among those that can run. A goroutine runs
// until it waits inside the library (platform.Park), or yields. When none can run, time passes: the
// clock jumps to the next event, which is the arrival of a message, a timer, or something that the
// test has scheduled. Hours in which nothing happens cost nothing.
//
// Running takes a little time, so that a goroutine that polls ends sometime. In thread mode multi the
// goroutines of a process interleave at the steps of the engine (platform.Step).
//
// # Transports
//
// The transports are those of package sim on a medium, Net. Each has what can go wrong with a real
// one (transports.go):
//
//	nettcp  a stream: resets at the end of a process, a send buffer, a handshake; probes find hosts
//	        that are gone
//	netshm  rings within a host: a message does not name its sender, only processes that check notice
//	        the end of another, and one that ends in the middle of a message holds up the others for a
//	        moment
//	netcma  copies within a host, of which a part has happened when a process ends in the middle
//	netrc   two devices with pairwise connections, credits, and memory registered for each of them,
//	        and one for messages to anybody: a peer that does not
//	        acknowledge is given up after a number of retransmissions, and all operations end with
//	        an error
//	netud   datagrams that are lost, doubled and reordered, under the real state machine
//	        (package udsim)
//	self    the real one
//
// nettcp is also a connection manager like sockcm, and netrdmacm one like rdmacm, for netrc. They are
// selected by UCX_SOCKADDR_TLS_PRIORITY (Config).
//
// # Ways and faults
//
// A Way leads from a host to another, with latency, jitter, the time of a byte, and loss. Messages queue
// up for it, so a large one delays a small one. A way can be cut in one direction or in both (Net.Cut,
// Net.Partition, Net.Heal); a host can be unplugged (Host.Vanish, Host.Return), or crash; a process can
// be killed, or frozen for a while, or lie about what it sends. What is sent meanwhile is held and arrives
// later, unless the transport gives up before. A process has limits of descriptors and memory that it can reach at any
// call, and each request of resources can be refused by its number (Process.Limits, Process.Refuse).
//
// # Determinism
//
// All choices come from one random source, so a seed repeats everything: World.Digest, a hash over
// all that the world has done, must be the same for two runs with a seed. The library takes part:
// where the order of a map matters it uses platform.Ordered, and its names and numbers are those of
// the simulated process (platform.Local).
package simnet
