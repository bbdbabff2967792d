package ucp

import (
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// settings holds the values of the UCX_* variables of the protocol layer
// (src/ucp/core/ucp_context.c, ucp_global_config_table and ucp_context_config_table).
type settings struct {
	TLS         config.Transports `ucx:"TLS" default:"all" doc:"Transports to use, separated by commas; ^ before the list means all others. Groups: all, sm or shm (shared memory), mm, ib, rc, ud, dc; a backslash before a name takes it literally."`
	NetDevices  config.List       `ucx:"NET_DEVICES" default:"all" doc:"Network devices to use."`
	ShmDevices  config.List       `ucx:"SHM_DEVICES" default:"all" doc:"Shared memory devices to use."`
	AccDevices  config.List       `ucx:"ACC_DEVICES" default:"all" doc:"Accelerator devices to use."`
	SelfDevices config.List       `ucx:"SELF_DEVICES" default:"all" doc:"Loopback devices to use."`

	Protos      protoList     `ucx:"PROTOS" default:"all" doc:"Protocols that may be used, by the names that UCX_PROTO_INFO=y prints: patterns with *, ? and [a-z], separated by commas; ^ before the list excludes them instead. Operations that none of these protocols can carry use the others."`
	BcopyThresh config.Bytes  `ucx:"BCOPY_THRESH" default:"auto" doc:"Message size from which messages are copied to a buffer instead of sent inline."`
	ZcopyThresh config.Bytes  `ucx:"ZCOPY_THRESH" default:"auto" doc:"Message size from which messages are sent without copying."`
	RndvThresh  rndvThresh    `ucx:"RNDV_THRESH" default:"auto" doc:"Message size from which the rendezvous protocol is used, for all peers or as intra:SIZE,inter:SIZE for peers on this host and on others."`
	RndvNbr     config.Bytes  `ucx:"RNDV_SEND_NBR_THRESH" default:"256k" doc:"Rendezvous threshold of sends with the flag that prefers early completion (OpFastComplete), if RNDV_THRESH is auto."`
	RndvScheme  rndvScheme    `ucx:"RNDV_SCHEME" default:"auto" doc:"Transfer of rendezvous data: get_zcopy (the receiver reads), put_zcopy (the sender writes), rkey_ptr (the receiver maps memory that UCX allocated and copies it), am (in messages), auto (the fastest). With transports that connect pairwise both sides must have the same value. A scheme that is not possible for a message is treated as auto."`
	RndvDiff    float64       `ucx:"RNDV_PERF_DIFF" default:"0" doc:"Percentage by which a rendezvous may be estimated slower than an eager message and still be used. The default of C UCX is 1, with other estimates."`
	RndvFlush   bool          `ucx:"RNDV_PUT_FORCE_FLUSH" default:"n" doc:"Flush the lanes after the data of a rendezvous by put_zcopy, even where the next message cannot overtake the data."`
	RndvRails   uint          `ucx:"MAX_RNDV_RAILS,MAX_RNDV_LANES" default:"2" doc:"Number of devices that may carry the data of one rendezvous in parallel; with 0 the data travels in messages. With transports that connect pairwise both sides must have the same value."`
	EagerRails  uint          `ucx:"MAX_EAGER_RAILS,MAX_EAGER_LANES" default:"1" doc:"Number of devices that may carry the fragments of one eager message in parallel; 0 means 1. With transports that connect pairwise both sides must have the same value."`
	RMARails    uint          `ucx:"MAX_RMA_RAILS,MAX_RMA_LANES" default:"1" doc:"Number of devices that may carry one put or get without copies in parallel; with 0 all puts and gets are copied. With transports that connect pairwise both sides must have the same value. The devices are among those that MAX_RNDV_RAILS allows."`
	RMAChunk    config.Bytes  `ucx:"MIN_RMA_CHUNK_SIZE" default:"8k" doc:"Smallest part of a put or get that is given to a lane of its own; more than 0."`
	RndvChunk   config.Bytes  `ucx:"MIN_RNDV_CHUNK_SIZE" default:"16k" doc:"Smallest part of a rendezvous that is given to a lane of its own; more than 0."`
	LaneRatio   float64       `ucx:"MULTI_LANE_MAX_RATIO" default:"4" doc:"Largest ratio of the bandwidth of the fastest lane to that of a lane that carries part of the same message."`
	PathRatio   config.Factor `ucx:"MULTI_PATH_RATIO" default:"auto" doc:"Fraction of a device's bandwidth that each connection over it gets, if there are several connections to one peer over it; auto divides by the number of paths. Both sides of transports that connect pairwise must have the same value."`
	SingleNet   bool          `ucx:"SINGLE_NET_DEVICE" default:"n" doc:"Spread messages over one network device only, selected by UCX_NODE_LOCAL_ID."`
	NodeLocalID config.Count  `ucx:"NODE_LOCAL_ID" default:"auto" doc:"Number of the process on its host, by which processes select different devices; auto means 0."`
	ZcopySeg    config.Bytes  `ucx:"RMA_ZCOPY_MAX_SEG_SIZE" default:"auto" doc:"Largest piece of memory that is read or written in one operation without copying; auto means the limit of the transport."`
	RkeyPtrSeg  config.Bytes  `ucx:"RKEY_PTR_SEG_SIZE" default:"512k" doc:"Largest number of bytes that a receiver copies from the sender's memory in one round of progress."`
	BcopyBw     config.Bytes  `ucx:"BCOPY_BW" default:"auto" doc:"Bandwidth of copying memory, in bytes per second, for the cost model."`

	MaxUnexpected config.Bytes `ucx:"MAX_UNEXP_BYTES" default:"auto" doc:"Largest amount of memory, in the whole process, for messages without a posted receive; messages that the program has taken are not counted. auto is a quarter of the memory of the machine or container, 4g at most. At the limit the largest holder loses its messages and connections; holders are compared by address or local user, and peers that the program has no endpoint to go first. Over shared memory, which does not identify senders, the message is dropped; a send that waits for the receiver ends with ErrExceedsLimit."`
	MaxUnexpEps   int          `ucx:"MAX_UNEXP_EPS" default:"65536" doc:"Largest number of endpoints, in the whole process, that peers may open before the program opens its own to them. At the limit the largest holder loses its endpoints, as with UCX_MAX_UNEXP_BYTES; over shared memory the request is refused, and the endpoint of the requester fails."`

	StreamUnread config.Bytes `ucx:"STREAM_MAX_UNREAD" default:"1m" doc:"Memory for the unread bytes of a stream at which its connection is no longer read, until half of it is free; at least 64k, and 64k while the process holds more than half of MAX_UNEXP_BYTES. Other messages on the connection wait as well. Over shared memory, which does not identify senders, the limit is MAX_UNEXP_BYTES, and a stream that exceeds it fails."`

	CheckSource config.Ternary `ucx:"CHECK_SOURCE" default:"try" doc:"Connect back to a peer only at the IP address that its request comes from, or at one of an address for which the application has an endpoint; a request that names other addresses is answered over its own connection. With y, messages that name an operation of a peer are accepted only from that address too: this is for peers with one address each, as messages over their other devices are refused. With n, a request can have connections made to any address except those of this machine."`
	Closed      bool           `ucx:"CLOSED" default:"n" doc:"Refuse requests of peers that the application has neither made an endpoint to nor allowed; nothing is connected for them."`
	Token       tokenSetting   `ucx:"TOKEN" default:"n" doc:"Put a random token into worker addresses, and refuse requests without proof of it: y from all peers, including peers of C UCX, which have no tokens; known from peers that the application has neither made an endpoint to nor allowed."`

	Wait waitSetting `ucx:"WAIT" default:"adaptive" doc:"Behavior of blocking calls: adaptive spins as long as spinning has been successful recently, latency always spins, cpu sleeps immediately."`

	KeepaliveInterval config.Time `ucx:"KEEPALIVE_INTERVAL" default:"20s" doc:"Time between rounds of checks that peers are alive; inf or 0 disables them."`
	KeepaliveEps      int         `ucx:"KEEPALIVE_NUM_EPS" default:"128" doc:"Number of endpoints that are checked in one round."`

	SockaddrTLS     config.List   `ucx:"SOCKADDR_TLS_PRIORITY" default:"rdmacm,tcp,sockcm" doc:"Connection managers for connections by socket address, in the order in which they are tried; sockcm is another name for that of tcp."`
	CMUseAllDevices bool          `ucx:"CM_USE_ALL_DEVICES" default:"y" doc:"Use all devices for connections by socket address, not only the device of the address. If the two sides differ, the value of the client counts; C UCX 1.13 does not send its value and must have the same."`
	SADataVersion   saDataVersion `ucx:"SA_DATA_VERSION" default:"v2" doc:"Version of the data that a client sends to request a connection by socket address: v1 or v2. A server answers in the version of the client."`

	AllocPrio config.List `ucx:"ALLOC_PRIO" default:"md:sysv,md:posix,thp,md:*,mmap,heap" doc:"Methods to allocate memory, in order of preference: md:NAME for the memory domains of a component, md:* for any domain, thp, huge and mmap for pages of the kernel, heap."`

	AddressVersion   addressVersion   `ucx:"ADDRESS_VERSION" default:"v1" doc:"Version of worker addresses, also of those in the messages that connect endpoints: v1 or v2. Peers read both. The data of connections by socket address is not affected."`
	AddressName      bool             `ucx:"ADDRESS_DEBUG_INFO" default:"n" doc:"Include the names of the host and the process in worker addresses, for peers to show."`
	AddressNameMax   uint             `ucx:"MAX_WORKER_ADDRESS_NAME,MAX_WORKER_NAME" default:"32" doc:"Longest name that UCX_ADDRESS_DEBUG_INFO puts into an address, in bytes; 255 at most."`
	AdaptiveProgress bool             `ucx:"ADAPTIVE_PROGRESS" default:"y" doc:"Look for messages less often on transports on which none have come for long, until one comes."`
	ResolveID        config.OnOffAuto `ucx:"RESOLVE_REMOTE_EP_ID" default:"off" doc:"Resolve the peer's id of an endpoint when the endpoint is created, not when an operation needs it; auto means for endpoints with error handling while keepalive is enabled."`
	WireupByAM       bool             `ucx:"WIREUP_VIA_AM_LANE" default:"n" doc:"Send the messages that connect endpoints over the lane for active messages."`
	FenceMode        fenceMode        `ucx:"FENCE_MODE" default:"auto" doc:"Ordering by fences: strong delays operations until all earlier ones are complete; the other modes do so only where connections do not preserve the order."`
	AtomicMode       atomicMode       `ucx:"ATOMIC_MODE" default:"guess" doc:"Interfaces that execute atomic operations: cpu those whose operations the CPU executes, device those whose operations a device executes, guess all. Otherwise the peer's worker executes them."`
	Backlog          config.Count     `ucx:"LISTENER_BACKLOG" default:"auto" doc:"Number of clients that may wait at a listener to be accepted; auto means the limit of the system, which also limits other values."`
	MaxMDs           config.Count     `ucx:"MAX_COMPONENT_MDS" default:"16" doc:"Largest number of memory domains that are used of one component."`

	WarnInvalid bool             `ucx:"WARN_INVALID_CONFIG" default:"y" doc:"Warn about transports and devices that are named in settings and do not exist."`
	PrintTables config.OnOffAuto `ucx:"PRINT_TRANSPORT_TABLES" default:"auto" doc:"Print the transports of each context and the lanes of each endpoint configuration to the log; auto means if UCX_LOG_LEVEL is debug or higher."`

	NumEPs config.Count `ucx:"NUM_EPS" default:"auto" doc:"Expected number of endpoints, instead of the program's estimate."`
	NumPPN config.Count `ucx:"NUM_PPN" default:"auto" doc:"Expected number of processes per host, instead of the program's estimate."`

	PeerRelease peerRelease `ucx:"PEER_RELEASE" default:"auto" doc:"Release of C UCX of the peers: 1.13 (up to 1.15) or 1.22 (from 1.16), instead of the program's parameter. It is needed only where the releases differ and no form suits both: the length of shared-memory rings, and, where lanes are connected pairwise, whether a lane over a much slower device is used. auto means 1.22 there."`

	LogDataSize  config.Bytes `ucx:"LOG_DATA_SIZE" default:"0" doc:"Number of bytes of each message, starting with the header, that are printed if UCX_LOG_LEVEL is data or higher. A worker logs the messages that it receives if the level is set when the worker is created. Messages may contain secrets."`
	ProtoInfo    protoInfo    `ucx:"PROTO_INFO" default:"auto" doc:"Print the selected protocols to the log: y for each endpoint configuration when it is created; n never; auto if UCX_LOG_LEVEL is debug or higher; used prints the selections that were used, with counts, when the worker is closed. Any other value is a pattern with *, ? and [a-z] that the title of an operation must match, such as *tagged*fast*."`
	ProtoInfoDir string       `ucx:"PROTO_INFO_DIR" default:"" doc:"Directory for files with the selections that UCX_PROTO_INFO prints, one file for each, with the estimates and the reason why each other protocol was not selected. In the name %p stands for the process id and %h for the host. The directory is created if it does not exist."`
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

// rndvThresh is the value of UCX_RNDV_THRESH: a rendezvous threshold for peers on this host and one
// for other peers. Examples: "64k", "intra:64k,inter:auto", "auto,intra:64k".
type rndvThresh struct {
	Intra, Inter config.Bytes
}

var reachKeys = []string{"intra", "inter"}

// ParseConfig implements config.Value.
func (t *rndvThresh) ParseConfig(s string) error {
	t.Intra, t.Inter = config.BytesAuto, config.BytesAuto
	return config.ParseKeyed(s, reachKeys, func(key int, value string) error {
		return []*config.Bytes{&t.Intra, &t.Inter}[key].ParseConfig(value)
	})
}

// String implements config.Value.
func (t rndvThresh) String() string {
	return config.FormatKeyed(reachKeys, []string{t.Intra.String(), t.Inter.String()})
}

// ConfigSyntax describes the values for error messages and listings.
func (t rndvThresh) ConfigSyntax() string {
	return config.KeyedSyntax(reachKeys, t.Intra.ConfigSyntax())
}

// rndvScheme is the value of UCX_RNDV_SCHEME: how the data of a rendezvous is transferred.
type rndvScheme uint8

const (
	rndvSchemeAuto rndvScheme = iota
	rndvSchemePut
	rndvSchemeAM
	rndvSchemeGet
	rndvSchemePtr
)

var rndvSchemeNames = [...]string{"auto", "put_zcopy", "am", "get_zcopy", "rkey_ptr"}

// ParseConfig implements config.Value. The pipeline schemes of C UCX, which this library does not
// have, give ucs.ErrUnsupported.
func (v *rndvScheme) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "auto":
		*v = rndvSchemeAuto
	case "get_ppln", "put_ppln":
		return fmt.Errorf("pipelines through intermediate buffers are not supported: %w", ucs.ErrUnsupported)
	case "put_zcopy":
		*v = rndvSchemePut
	case "get_zcopy":
		*v = rndvSchemeGet
	case "rkey_ptr":
		*v = rndvSchemePtr
	case "am":
		*v = rndvSchemeAM
	default:
		return fmt.Errorf("%q is not a rendezvous scheme: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v rndvScheme) String() string { return rndvSchemeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (rndvScheme) ConfigSyntax() string { return "auto, get_zcopy, put_zcopy, rkey_ptr, am" }

// addressVersion is the value of UCX_ADDRESS_VERSION.
type addressVersion proto.AddressVersion

var addressVersionNames = []string{"v1", "v2"}

// ParseConfig implements config.Value.
func (v *addressVersion) ParseConfig(s string) error { return parseMode(v, s, addressVersionNames) }

// String implements config.Value.
func (v addressVersion) String() string { return proto.AddressVersion(v).String() }

// ConfigSyntax describes the values for error messages and listings.
func (addressVersion) ConfigSyntax() string { return config.EnumSyntax(addressVersionNames) }

// fenceMode is the value of UCX_FENCE_MODE.
type fenceMode uint8

// Modes of fences. C UCX has different fences for the modes weak, auto and ep_based. In this
// library the three modes have the same fence, which checks the endpoint's connections each time.
const (
	fenceWeak fenceMode = iota
	fenceStrong
	fenceAuto
	fenceEndpoints
)

var fenceModeNames = []string{"weak", "strong", "auto", "ep_based"}

// ParseConfig implements config.Value.
func (v *fenceMode) ParseConfig(s string) error { return parseMode(v, s, fenceModeNames) }

// String implements config.Value.
func (v fenceMode) String() string { return fenceModeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (fenceMode) ConfigSyntax() string { return config.EnumSyntax(fenceModeNames) }

// atomicMode is the value of UCX_ATOMIC_MODE.
type atomicMode uint8

const (
	atomicCPU atomicMode = iota
	atomicDevice
	atomicGuess
)

var atomicModeNames = []string{"cpu", "device", "guess"}

// ParseConfig implements config.Value.
func (v *atomicMode) ParseConfig(s string) error { return parseMode(v, s, atomicModeNames) }

// String implements config.Value.
func (v atomicMode) String() string { return atomicModeNames[v] }

// ConfigSyntax describes the values for error messages and listings.
func (atomicMode) ConfigSyntax() string { return config.EnumSyntax(atomicModeNames) }

// parseMode sets v to the index of s in names.
func parseMode[T ~uint8](v *T, s string, names []string) error {
	k, err := config.ParseEnum(strings.TrimSpace(s), names)
	if err != nil {
		return fmt.Errorf("%q is not one of %s: %w", s, strings.Join(names, ", "), ucs.ErrInvalidParam)
	}
	*v = T(k)
	return nil
}

// saDataVersion is the value of UCX_SA_DATA_VERSION.
type saDataVersion proto.CMVersion

// ParseConfig implements config.Value.
func (v *saDataVersion) ParseConfig(s string) error {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "v1":
		*v = saDataVersion(proto.CMDataV1)
	case "v2":
		*v = saDataVersion(proto.CMDataV2)
	default:
		return fmt.Errorf("%q is neither v1 nor v2: %w", s, ucs.ErrInvalidParam)
	}
	return nil
}

// String implements config.Value.
func (v saDataVersion) String() string { return fmt.Sprintf("v%d", v+1) }

// ConfigSyntax describes the values for error messages and listings.
func (saDataVersion) ConfigSyntax() string { return "v1 or v2" }

// backlog returns the value of UCX_LISTENER_BACKLOG for a connection manager: at least 1, or 0 for
// the limit of the system.
func (s *settings) backlog() int {
	if s.Backlog.IsAuto() {
		return 0
	}
	return max(s.Backlog.Int(0), 1)
}

// connManagers returns the components that connect by socket address, in the order of
// UCX_SOCKADDR_TLS_PRIORITY, or nil if RequireTLS is set.
func (c *Context) connManagers() (list []uct.ConnManagerComponent) {
	if c.params.RequireTLS {
		return nil // connection managers do not encrypt
	}
	has := uct.ConnManagers()
	for _, name := range c.settings.SockaddrTLS.Items {
		if name == "sockcm" {
			name = "tcp"
		}
		k := slices.IndexFunc(has, func(m uct.ConnManagerComponent) bool { return m.Name() == name })
		if k >= 0 && !slices.Contains(list, has[k]) {
			list = append(list, has[k])
		}
	}
	return list
}

// protoList is the value of UCX_PROTOS: a list of patterns that match the names of protocols.
type protoList config.List

// ParseConfig implements config.Value.
func (l *protoList) ParseConfig(s string) error {
	var list config.List
	if err := list.ParseConfig(s); err != nil {
		return err
	}
	for _, pattern := range list.Items {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("pattern %q: %w: %w", pattern, err, ucs.ErrInvalidParam)
		}
	}
	*l = protoList(list)
	return nil
}

// String implements config.Value.
func (l protoList) String() string { return config.List(l).String() }

// ConfigSyntax describes the values for error messages and listings.
func (l protoList) ConfigSyntax() string { return config.List(l).ConfigSyntax() }

// allow returns a function by which the cost model checks whether a protocol is allowed, nil if all
// protocols are.
func (l *protoList) allow() func(proto.Protocol) bool {
	if l.Mode == config.ListAll {
		return nil
	}
	return func(p proto.Protocol) bool {
		fits := slices.ContainsFunc(l.Items, func(pattern string) bool { return globAny(pattern, p.String()) })
		return fits == (l.Mode == config.ListAllow)
	}
}

// globAny reports whether name matches a pattern as in path.Match, except that * also matches
// slashes.
func globAny(pattern, name string) bool {
	plain := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(plain.Replace(pattern), plain.Replace(name))
	return ok
}

// WaitPolicy selects how calls that wait spend their time.
type WaitPolicy uint8

// Policies for calls that wait.
const (
	// WaitAdaptive spins and yields while recent waits show that this pays off, and
	// otherwise sleeps soon.
	WaitAdaptive WaitPolicy = iota

	// WaitLatency always spins. It is the fastest policy if the waiting goroutine has a CPU
	// to itself, which it uses fully.
	WaitLatency

	// WaitCPU sleeps at once.
	WaitCPU

	numWaitPolicies
)

// waitNames are the values of UCX_WAIT.
var waitNames = [numWaitPolicies]string{"adaptive", "latency", "cpu"}

// String returns the name that UCX_WAIT takes.
func (p WaitPolicy) String() string {
	if p < numWaitPolicies {
		return waitNames[p]
	}
	return fmt.Sprintf("WaitPolicy(%d)", uint8(p))
}

// waitSetting is the value of UCX_WAIT.
type waitSetting WaitPolicy

// ParseConfig implements config.Value.
func (v *waitSetting) ParseConfig(s string) error { return parseMode(v, s, waitNames[:]) }

// String implements config.Value.
func (v waitSetting) String() string { return WaitPolicy(v).String() }

// ConfigSyntax describes the values for error messages and listings.
func (waitSetting) ConfigSyntax() string { return config.EnumSyntax(waitNames[:]) }

// printTables prints the output of write to the log if UCX_PRINT_TRANSPORT_TABLES permits.
func (c *Context) printTables(write func(io.Writer) error) {
	switch c.settings.PrintTables {
	case config.OnOffAutomatic:
		if !c.log.Enabled(log.LevelDebug) {
			return
		}
	case config.Off:
		return
	}
	var b strings.Builder
	_ = write(&b) // writing to a strings.Builder never fails
	for line := range strings.Lines(b.String()) {
		c.log.Print(strings.TrimSuffix(line, "\n"))
	}
}

// limited returns the attributes of an interface, restricted to what the settings allow: sizes of
// puts and gets without copying, and atomic operations. It returns a itself if the settings
// restrict nothing.
func (s *settings) limited(a *uct.IfaceAttr) *uct.IfaceAttr {
	l := *a
	seg := max(s.ZcopySeg.Int(math.MaxInt), 1)
	l.Put.MaxZcopy = min(a.Put.MaxZcopy, max(seg, a.Put.MinZcopy))
	l.Get.MaxZcopy = min(a.Get.MaxZcopy, max(seg, a.Get.MinZcopy))
	if s.AtomicMode == atomicCPU && !a.Flags.Has(uct.IfaceAtomicCPU) || s.AtomicMode == atomicDevice && !a.Flags.Has(uct.IfaceAtomicDevice) {
		l.Atomic32, l.Atomic64 = uct.AtomicOps{}, uct.AtomicOps{}
	}
	if l.Put.MaxZcopy == a.Put.MaxZcopy && l.Get.MaxZcopy == a.Get.MaxZcopy && l.Atomic32 == a.Atomic32 && l.Atomic64 == a.Atomic64 {
		return a
	}
	return &l
}

// PeerRelease is a range of releases of C UCX to which the peers belong. Go and C peers of
// every release communicate whatever the range. It decides only where no value suits all
// releases: the default length of shared-memory rings, and, where lanes are connected
// pairwise, whether devices that are much slower than others get lanes.
type PeerRelease uint8

// Ranges of releases of C UCX.
const (
	PeerReleaseAny PeerRelease = iota // as 1.16 and later where a choice must be made
	PeerRelease113                    // 1.13 to 1.15
	PeerRelease122                    // 1.16 and later
)

// The constants equal those of uct.PeerRelease.
var _ = [1]struct{}{}[PeerRelease122-PeerRelease(uct.PeerRelease122)]

// peerReleases are the values of UCX_PEER_RELEASE, by PeerRelease.
var peerReleases = []string{PeerReleaseAny: "auto", PeerRelease113: "1.13", PeerRelease122: "1.22"}

// peerRelease is the value of UCX_PEER_RELEASE.
type peerRelease PeerRelease

// ParseConfig implements config.Value.
func (r *peerRelease) ParseConfig(s string) error {
	n, err := config.ParseEnum(s, peerReleases)
	*r = peerRelease(n)
	return err
}

// String implements config.Value.
func (r peerRelease) String() string { return peerReleases[r] }

// ConfigSyntax implements config.Syntaxer.
func (peerRelease) ConfigSyntax() string { return config.EnumSyntax(peerReleases) }

// peerRelease returns the value of UCX_PEER_RELEASE, or ContextParams.PeerRelease if the setting is
// auto.
func (c *Context) peerRelease() PeerRelease {
	if r := PeerRelease(c.settings.PeerRelease); r != PeerReleaseAny {
		return r
	}
	return c.params.PeerRelease
}
