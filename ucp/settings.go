package ucp

import (
	"fmt"
	"io"
	"strings"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

// settings are the variables of the protocol layer (src/ucp/core/ucp_context.c,
// ucp_global_config_table and ucp_context_config_table).
type settings struct {
	TLS         config.Transports `ucx:"TLS" default:"all" doc:"Transports to use, separated by commas; ^ before the list means all others. Groups: all, sm or shm (shared memory), mm, ib, rc, ud, dc; a backslash before a name takes it literally."`
	NetDevices  config.List       `ucx:"NET_DEVICES" default:"all" doc:"Network devices to use."`
	ShmDevices  config.List       `ucx:"SHM_DEVICES" default:"all" doc:"Shared memory devices to use."`
	AccDevices  config.List       `ucx:"ACC_DEVICES" default:"all" doc:"Accelerator devices to use."`
	SelfDevices config.List       `ucx:"SELF_DEVICES" default:"all" doc:"Loopback devices to use."`

	Protos      protoList     `ucx:"PROTOS" default:"all" doc:"Protocols to use, by the names that UCX_PROTO_INFO=y prints, as patterns with *, ? and [a-z] separated by commas; ^ before the list means all others. What none of these can carry goes by the rest."`
	BcopyThresh config.Bytes  `ucx:"BCOPY_THRESH" default:"auto" doc:"Message size from which messages are copied to a buffer instead of sent inline."`
	ZcopyThresh config.Bytes  `ucx:"ZCOPY_THRESH" default:"auto" doc:"Message size from which messages are sent without copying."`
	RndvThresh  rndvThresh    `ucx:"RNDV_THRESH" default:"auto" doc:"Message size from which the rendezvous protocol is used, for all peers or as intra:SIZE,inter:SIZE for peers on this host and on others."`
	RndvNbr     config.Bytes  `ucx:"RNDV_SEND_NBR_THRESH" default:"256k" doc:"The rendezvous threshold of sends that prefer early completion, where RNDV_THRESH is auto."`
	RndvScheme  rndvScheme    `ucx:"RNDV_SCHEME" default:"auto" doc:"How rendezvous data travels: auto, get_zcopy (the receiver reads), put_zcopy (the sender writes), rkey_ptr (the receiver maps memory that UCX allocated and copies), am (in messages). One that is not possible is as auto."`
	RndvDiff    float64       `ucx:"RNDV_PERF_DIFF" default:"0" doc:"By how many percent a rendezvous may be slower than a message that goes at once and is used all the same. The default of C UCX is 1, with other estimates."`
	RndvFlush   bool          `ucx:"RNDV_PUT_FORCE_FLUSH" default:"n" doc:"Flush the lanes behind the data of a rendezvous that is written, also where what follows cannot overtake it."`
	RndvRails   uint          `ucx:"MAX_RNDV_RAILS,MAX_RNDV_LANES" default:"2" doc:"Number of devices over which the data of a rendezvous may travel at once; with 0 it travels in messages."`
	EagerRails  uint          `ucx:"MAX_EAGER_RAILS,MAX_EAGER_LANES" default:"1" doc:"Number of devices over which the fragments of an eager message may travel at once; 0 is as 1. With transports that connect pairwise both sides must have the same."`
	RMARails    uint          `ucx:"MAX_RMA_RAILS,MAX_RMA_LANES" default:"1" doc:"Number of devices over which a put or get may travel at once, where it is not copied; with 0 all are copied. It takes devices that MAX_RNDV_RAILS allows, and is not more."`
	RMAChunk    config.Bytes  `ucx:"MIN_RMA_CHUNK_SIZE" default:"8k" doc:"Least part of a put or get that is worth a lane of its own, more than 0."`
	RndvChunk   config.Bytes  `ucx:"MIN_RNDV_CHUNK_SIZE" default:"16k" doc:"Least part of a rendezvous that is worth a lane of its own, more than 0."`
	LaneRatio   float64       `ucx:"MULTI_LANE_MAX_RATIO" default:"4" doc:"How many times slower than the fastest a lane may be to carry a part of the same message."`
	PathRatio   config.Factor `ucx:"MULTI_PATH_RATIO" default:"auto" doc:"Part of the bandwidth of a device that each connection over it takes, where a peer has several over the same one; auto is what the number of paths makes it. Both sides of transports that connect pairwise must have the same."`
	SingleNet   bool          `ucx:"SINGLE_NET_DEVICE" default:"n" doc:"Let messages be spread over no more than one network device, which UCX_NODE_LOCAL_ID chooses."`
	NodeLocalID config.Count  `ucx:"NODE_LOCAL_ID" default:"auto" doc:"Number of the process within its host, by which processes take different devices; auto means 0."`
	ZcopySeg    config.Bytes  `ucx:"RMA_ZCOPY_MAX_SEG_SIZE" default:"auto" doc:"Longest piece in which memory is read or written without copying; auto means what the transport can."`
	RkeyPtrSeg  config.Bytes  `ucx:"RKEY_PTR_SEG_SIZE" default:"512k" doc:"Most bytes that a receiver copies out of the sender's memory in a round of progress."`
	BcopyBw     config.Bytes  `ucx:"BCOPY_BW" default:"auto" doc:"Bytes per second at which memory is copied, for the cost model."`

	MaxUnexpected config.Bytes `ucx:"MAX_UNEXP_BYTES" default:"auto" doc:"Memory that messages without a posted receive may take in the process, all workers together, those not counted that the program has taken out itself; auto is a quarter of that of the machine, or of the container, and not more than 4g. Beyond it those who hold most lose their messages and connections, by address or local user, those to whom the program has no endpoint first; over shared memory, which does not tell senders apart, the message is dropped."`
	MaxUnexpEps   int          `ucx:"MAX_UNEXP_EPS" default:"65536" doc:"Endpoints that peers may open toward the workers of the process before these open their own. Beyond it those who have most lose theirs, as with UCX_MAX_UNEXP_BYTES."`

	StreamUnread config.Bytes `ucx:"STREAM_MAX_UNREAD" default:"1m" doc:"Memory that the unread bytes of a stream may take before the connection that brings them is not read any more, until half of it is free; 64k at least, which it is if the process holds much. What else comes on that connection waits, too. Over shared memory, which does not tell senders apart, only MAX_UNEXP_BYTES is the limit, and a stream beyond it fails."`

	CheckSource config.Ternary `ucx:"CHECK_SOURCE" default:"try" doc:"Connect back to a peer only at the IP address that its request comes from, or where the application has an endpoint that leads to that address as well; a request that names other addresses is answered over its own connection. With y messages for operations with a peer are taken only from there, too: for peers with one address each, as what others send over their other devices is refused. With n anybody can have connections made to any address but those of this machine."`
	Closed      bool           `ucx:"CLOSED" default:"n" doc:"Refuse requests of peers that the application has neither made an endpoint to nor allowed; nothing is connected for them."`
	Token       tokenSetting   `ucx:"TOKEN" default:"n" doc:"Put a random token into worker addresses, and refuse requests of peers that do not prove that they have it: y all of them, also those of C UCX, which know no tokens; known those that the application has neither made an endpoint to nor allowed."`

	Wait waitSetting `ucx:"WAIT" default:"adaptive" doc:"How calls that wait spend their time: adaptive spins while that has paid lately, latency spins all the time, cpu sleeps at once."`

	KeepaliveInterval config.Time `ucx:"KEEPALIVE_INTERVAL" default:"20s" doc:"Time between rounds of checks whether peers are still there; inf or 0 for never."`
	KeepaliveEps      int         `ucx:"KEEPALIVE_NUM_EPS" default:"128" doc:"Endpoints checked in a round."`

	SockaddrTLS     config.List   `ucx:"SOCKADDR_TLS_PRIORITY" default:"rdmacm,tcp,sockcm" doc:"Connection managers for connections by socket address, in the order in which they are tried; sockcm is another name of tcp's."`
	CMUseAllDevices bool          `ucx:"CM_USE_ALL_DEVICES" default:"y" doc:"Let connections by socket address use all devices, not only the one that the address is reached by. Where the other side has another value that of the client counts; C UCX 1.13 does not tell its own, and must have the same."`
	SADataVersion   saDataVersion `ucx:"SA_DATA_VERSION" default:"v2" doc:"Layout of the data with which a client asks for a connection: v1 or v2. A server answers in the client's."`

	AllocPrio config.List `ucx:"ALLOC_PRIO" default:"md:sysv,md:posix,thp,md:*,mmap,heap" doc:"Ways to allocate memory, the first that works is taken: md:NAME for the memory domains of a component, md:* for any, thp, huge and mmap for pages of the kernel, heap."`

	AddressVersion addressVersion   `ucx:"ADDRESS_VERSION" default:"v1" doc:"Layout of worker addresses, and of those in the messages that connect endpoints: v1 or v2. Peers read both. The data of connections by socket address is not concerned."`
	AddressName    bool             `ucx:"ADDRESS_DEBUG_INFO" default:"n" doc:"Put host and process into worker addresses, for peers to show."`
	AddressNameMax uint             `ucx:"MAX_WORKER_ADDRESS_NAME,MAX_WORKER_NAME" default:"32" doc:"Longest name that UCX_ADDRESS_DEBUG_INFO puts into an address; 255 at most."`
	ResolveID      config.OnOffAuto `ucx:"RESOLVE_REMOTE_EP_ID" default:"off" doc:"Ask the peer for its end of an endpoint when that is made, not when an operation needs it; auto means where failures are handled and keepalive is on."`
	WireupByAM     bool             `ucx:"WIREUP_VIA_AM_LANE" default:"n" doc:"Connect endpoints over the lane for messages."`
	FenceMode      fenceMode        `ucx:"FENCE_MODE" default:"auto" doc:"How fences order: strong holds operations back until those before them are done, the others do that only where connections do not keep the order by themselves."`
	AtomicMode     atomicMode       `ucx:"ATOMIC_MODE" default:"guess" doc:"Which interfaces do atomic operations: cpu means those that the CPU does them for, device those with a device that does, guess all. By others they are done by the peer's worker."`
	Backlog        config.Count     `ucx:"LISTENER_BACKLOG" default:"auto" doc:"Clients that may wait at a listener to be accepted; auto is as many as the system allows, which is the limit of other values, too."`
	MaxMDs         config.Count     `ucx:"MAX_COMPONENT_MDS" default:"16" doc:"Memory domains of a component that are used at most."`

	WarnInvalid bool             `ucx:"WARN_INVALID_CONFIG" default:"y" doc:"Warn about transports and devices that were asked for by name and do not exist."`
	PrintTables config.OnOffAuto `ucx:"PRINT_TRANSPORT_TABLES" default:"auto" doc:"Print the transports of each context and the lanes of each endpoint configuration to the log; auto means where UCX_LOG_LEVEL is debug or more."`

	NumEPs config.Count `ucx:"NUM_EPS" default:"auto" doc:"Number of endpoints to expect, overriding what the program estimates."`
	NumPPN config.Count `ucx:"NUM_PPN" default:"auto" doc:"Number of processes per host to expect, overriding what the program estimates."`

	PeerRelease peerRelease `ucx:"PEER_RELEASE" default:"auto" doc:"Release of C UCX that peers are of: 1.13 (to 1.15) or 1.22 (from 1.16), overriding what the program says. Only for what no single form serves, as the length of shared-memory rings, or whether a lane over a slow device beside one over a fast one is left out where lanes are connected pairwise; auto is 1.22 there."`

	LogDataSize  config.Bytes `ucx:"LOG_DATA_SIZE" default:"0" doc:"Bytes of each message, its header first, that are printed where UCX_LOG_LEVEL is data or more. What a worker receives is logged if the level is that when the worker is made. Messages may hold secrets."`
	ProtoInfo    protoInfo    `ucx:"PROTO_INFO" default:"auto" doc:"Print the choice of protocols to the log: y for each endpoint configuration when it is made, n not at all, auto where UCX_LOG_LEVEL is debug or more; used the choices that were made use of, with how often, when the worker is closed; else a pattern with *, ? and [a-z] that the title of an operation has to fit, as *tagged*fast*."`
	ProtoInfoDir string       `ucx:"PROTO_INFO_DIR" default:"" doc:"Directory for files with the choices that UCX_PROTO_INFO prints when they are made, one each, with the estimates and why each other protocol was left out; %p in its name stands for the number of the process, %h for the host. It is made if it is missing."`
}

func init() {
	config.Register(config.Section{
		Name:  "ucp",
		Title: "UCP",
		New:   func() any { return new(settings) },
	})
}

// Config is a snapshot of the UCX settings. NewContext does not change it. It must not be
// used by several goroutines at the same time.
type Config struct{ set *config.Set }

// ReadConfig reads the settings: the defaults, then the ucx.conf files and filename if not
// empty, then UCX_* variables, then <envPrefix>_UCX_* variables. A missing file is not an
// error; an invalid value is.
func ReadConfig(envPrefix, filename string) (*Config, error) {
	set, err := config.Read(envPrefix, filename)
	if err != nil {
		return nil, err
	}
	return &Config{set: set}, nil
}

// Modify changes one setting. The name has no UCX_ prefix; settings of transports have
// their full name ("TCP_TX_SEG_SIZE"). It fails with ucs.ErrInvalidParam for an invalid
// value, a name with the prefix, and an unknown name that resembles a known one. Any other
// unknown name is kept. A setting of C UCX that has no effect here is also kept, with a
// warning in the log.
func (c *Config) Modify(name, value string) error {
	if i := strings.LastIndex(name, "UCX_"); i >= 0 {
		return fmt.Errorf("ucp: Config.Modify of %q: expected the name without its prefix, %q: %w", name, name[i+len("UCX_"):], ucs.ErrInvalidParam)
	}
	if near := config.Nearest(name); near != "" {
		return fmt.Errorf("ucp: Config.Modify of %q: no such setting, nearest %q: %w", name, near, ucs.ErrInvalidParam)
	}
	return c.set.Modify(name, value)
}

// WriteInfo prints the settings under a title.
func (c *Config) WriteInfo(w io.Writer, title string, flags config.PrintFlags) error {
	return c.set.Write(w, title, flags)
}
