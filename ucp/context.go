package ucp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/regions"
	"github.com/ucx-go/ucx/ucp/internal/transports"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// EntityNameMax is the size limit of the names of contexts, workers and endpoints, counted
// as in C: 31 visible bytes. Longer names are truncated.
const EntityNameMax = 32

// ContextParams are the parameters of NewContext.
type ContextParams struct {
	// Features select the families of operations. With none, every operation is refused.
	Features Features

	// RequestInit is called once for each request object that the library makes, not for
	// each use. RequestCleanup is called once for each of these objects when the worker is
	// closed.
	RequestInit    func(*Request)
	RequestCleanup func(*Request)

	// TagSenderMask has the tag bits set that identify the sender. It is a hint.
	TagSenderMask Tag

	// MTWorkersShared states that workers of the context run on different goroutines. In
	// this implementation they always may.
	MTWorkersShared bool

	// EstimatedEndpoints and EstimatedPPN are hints for the choice of transports:
	// endpoints per worker and processes per host. 0 means 1.
	EstimatedEndpoints int
	EstimatedPPN       int

	// PeerRelease is the range of C UCX releases of the peers, if there are C peers. The
	// setting UCX_PEER_RELEASE overrides it.
	PeerRelease PeerRelease

	// TLS, if not nil, adds the transport "tls": tcp inside TLS 1.3, between peers that
	// both have it. Each peer is server and client: it listens, and it connects to the
	// peers that it sends to. Therefore Certificates or GetCertificate must be set, and two
	// peers that send to each other make two handshakes, each as the server of one. RootCAs
	// verify a server: it must be ServerName if that is set, else its certificate must name
	// the IP address that it is reached at. ClientAuth, which should be
	// tls.RequireAndVerifyClientCert, and ClientCAs decide which clients may connect.
	//
	// The callbacks run on goroutines of the library, several at a time, and delay other
	// handshakes. If one panics its handshake fails: the panic is logged with the stack, and an
	// endpoint of this side fails with a tcp.HandshakePanic in its error. A peer has ten seconds to
	// finish a handshake; then its connection is closed, and an endpoint to it fails with
	// ucs.ErrTimedOut. WorkerParams.Accept is called twice, before and after the handshake.
	// Sessions are resumed if ClientSessionCache is set and SessionTicketsDisabled is not.
	// MinVersion is never below TLS 1.3; NextProtos is "ucx" if empty. The configuration is copied;
	// one that cannot work gives ucs.ErrInvalidParam.
	//
	// Lane selection treats tls as a slower tcp: it is used where tcp and shared memory are
	// absent, not allowed, or absent at the peer. To use nothing else set RequireTLS, or
	// UCX_TLS=tls, which excludes shared memory as well.
	TLS *tls.Config

	// RequireTLS disables the network transports that do not encrypt, so that peers reach
	// this process over a network only by TLS. Peers of C UCX then cannot reach it over a
	// network at all. Shared memory, which is private to one user of one machine, stays
	// enabled.
	RequireTLS bool

	// Name names the context in logs; if empty a name is generated.
	Name string

	// Logger, if not nil, receives what the context, its workers and their endpoints log,
	// instead of the process's logger (package log): two libraries in one process can have
	// a logger each. Its handler decides what is printed, and may change that at any time
	// (slog.LevelVar). Messages about the process rather than the context still go to the
	// process's logger: unknown settings, and limits of descriptors and mappings. Messages
	// that are logged once, or once a minute, about the behavior of peers are counted for
	// the process.
	Logger *slog.Logger
}

// ContextAttr describes a context.
type ContextAttr struct {
	RequestSize int              // size of a Request in bytes, for information
	ThreadMode  ucs.ThreadMode   // multi with MTWorkersShared, else single
	MemoryTypes []ucs.MemoryType // accessible to at least one memory domain in use
	Name        string
}

// Context holds the transports that workers use. Any goroutine may call its methods.
type Context struct {
	_ noCopy

	params   ContextParams
	name     string
	log      *log.Logger // ContextParams.Logger, or the logger of the process
	set      *config.Set
	settings settings

	mds       []openMD
	resources []resource
	skipped   []skippedResource

	seenTransports []string                      // transports of this machine, whether or not allowed
	seenDevices    [len(deviceSettings)][]string // devices of this machine, by setting (deviceSetting)
	unsure         bool                          // a transport that could not be used may have more devices

	table regions.Table // memory that peers may access by messages
	pins  *regions.PinBoard

	mu       sync.Mutex
	workers  int                  // open workers, guarded by mu
	memories map[*Memory]struct{} // open memory handles, guarded by mu
	closed   bool                 // guarded by mu
}

// openMD is a memory domain in use. Addresses and remote keys identify the domain by its index in
// Context.mds.
type openMD struct {
	component uct.Component
	md        uct.MemoryDomain
}

// resource is a transport on a device, which each worker opens. The position of a resource in
// Context.resources is its resource index.
type resource struct {
	uct.Resource
	md        int
	auxiliary bool // used only for the wireup of other transports
}

// skippedResource is a transport, or a transport on a device, that is not used, and the reason.
type skippedResource struct {
	name   string
	reason string
}

func (s skippedResource) String() string { return s.name + ": " + s.reason }

// maxContextMDs is the largest number of memory domains of a context. The index of a domain must
// fit into the five bits that every release of C UCX reads from an address.
const maxContextMDs = 32

// contextSeq numbers contexts without a name.
var contextSeq platform.Local[atomic.Uint64]

// NewContext opens the transports of this machine that the settings allow. If cfg is nil
// the settings are read from the environment. If no transport is left NewContext fails with
// ucs.ErrNoDevice.
func NewContext(p ContextParams, cfg *Config) (*Context, error) {
	if err := p.Features.check(); err != nil {
		return nil, err
	}
	if err := p.wrong(); err != nil {
		return nil, err
	}
	if cfg == nil {
		var err error
		if cfg, err = ReadConfig("", ""); err != nil {
			return nil, err
		}
	}
	c := &Context{params: p, log: log.FromSlog(p.Logger), set: cfg.set.Clone(), pins: regions.NewPinBoard(), memories: make(map[*Memory]struct{})}
	if err := c.set.Check(); err != nil {
		return nil, fmt.Errorf("ucp: settings: %w", err)
	}
	if err := c.set.Load("ucp", &c.settings); err != nil {
		return nil, err
	}
	if c.settings.RndvChunk == 0 || c.settings.RMAChunk == 0 {
		return nil, fmt.Errorf("ucp: UCX_MIN_RNDV_CHUNK_SIZE and UCX_MIN_RMA_CHUNK_SIZE must be more than 0: %w", ucs.ErrInvalidParam)
	}
	c.name = entityName(p.Name, "ucp-context", contextSeq.Get())
	if p.Features == 0 {
		c.log.WarnOnce("", "context without features", zap.String("context", c.name))
	}
	if err := c.openResources(); err != nil {
		c.closeMDs()
		return nil, err
	}
	if p.Features&FeatureExportedMemh != 0 && !c.exports() {
		c.closeMDs()
		return nil, fmt.Errorf("ucp: feature %v: no transport of this library can export or import memory: %w", FeatureExportedMemh, ucs.ErrUnsupported)
	}
	c.printTables(func(w io.Writer) error { return c.WriteInfo(w) })
	return c, nil
}

// entityName truncates a name to EntityNameMax-1 bytes, or generates one if name is empty.
func entityName(name, kind string, seq *atomic.Uint64) string {
	if name == "" {
		name = fmt.Sprintf("%s-%d-%d", kind, platform.Pid(), seq.Add(1))
	}
	return name[:min(len(name), EntityNameMax-1)]
}

// openResources opens the memory domains that have an allowed resource, and records why the other
// transports are not used. It fails if no resource is left.
func (c *Context) openResources() error {
	for _, a := range transports.Absent {
		c.skipped = append(c.skipped, skippedResource{name: a.Name, reason: a.Reason})
	}
	components := uct.Components()
	if c.params.TLS != nil {
		tls, err := transports.Encrypted(c.params.TLS)
		if err != nil {
			return fmt.Errorf("ucp: ContextParams.TLS: %w", err)
		}
		components = append(components, tls)
	} else if slices.Contains(c.settings.TLS.Missing(nil), transports.Encrypting) {
		c.skip(transports.Encrypting, errNoConfig)
	}
	for _, comp := range components {
		mds, err := comp.MemoryDomains(c.set)
		if errors.Is(err, ucs.ErrNoDevice) {
			c.noDevice(comp, err)
			continue
		}
		if err != nil {
			c.refuse(comp, comp.Name(), err)
			continue
		}
		for k, r := range mds {
			if k >= c.settings.MaxMDs.Int(math.MaxInt) {
				c.skip(r.Name, errManyMDs)
				continue
			}
			if err := c.openMD(comp, r.Name); err != nil {
				c.refuse(comp, r.Name, err)
			}
		}
	}
	if len(c.resources) == 0 {
		return c.nothingLeft()
	}
	if c.settings.WarnInvalid {
		c.warnMissing()
	}
	return nil
}

// openMD opens one memory domain and keeps it open if the settings allow one of its resources.
func (c *Context) openMD(comp uct.Component, name string) error {
	if len(c.mds) == maxContextMDs {
		return fmt.Errorf("more than %d memory domains, leave transports out of UCX_TLS: %w", maxContextMDs, ucs.ErrExceedsLimit)
	}
	md, err := comp.OpenMD(name, c.set)
	if err != nil {
		return err
	}
	list, err := md.Resources()
	if err != nil {
		md.Close()
		return err
	}
	for _, m := range md.Attr().Missing {
		c.skip(m.Name, m.Reason)
	}
	used := false
	for _, r := range list {
		c.seenTransports = append(c.seenTransports, r.Transport)
		of := deviceSetting(r.Type)
		c.seenDevices[of] = append(c.seenDevices[of], r.Device)
		if err := c.allowed(r); err != nil {
			c.skip(r.String(), err)
			continue
		}
		c.resources = append(c.resources, resource{
			Resource: r, md: len(c.mds), auxiliary: c.settings.TLS.Use(r.Transport) == config.UseAuxiliary,
		})
		used = true
	}
	if !used {
		return md.Close()
	}
	c.mds = append(c.mds, openMD{component: comp, md: md})
	return nil
}

var (
	errNotInTLS     = errors.New("not in UCX_TLS")
	errNotInDevices = errors.New("not in the list of devices")
	errNotEncrypted = errors.New("not encrypted, and RequireTLS is set")
	errManyMDs      = errors.New("more memory domains of a component than UCX_MAX_COMPONENT_MDS")
	errNoConfig     = errors.New("no configuration in ContextParams.TLS")
)

// allowed returns the reason why the settings exclude a resource, nil if they do not.
func (c *Context) allowed(r uct.Resource) error {
	if c.settings.TLS.Use(r.Transport) == config.UseNone {
		return errNotInTLS
	}
	if c.params.RequireTLS && r.Type == uct.DeviceNetwork && r.Transport != transports.Encrypting {
		return errNotEncrypted
	}
	devices := c.devices(deviceSetting(r.Type))
	if !devices.MatchDevice(r.Device) {
		return errNotInDevices
	}
	return nil
}

// wants reports whether UCX_TLS allows at least one transport of a component.
func (c *Context) wants(comp uct.Component) bool {
	return slices.ContainsFunc(comp.Transports(), func(name string) bool {
		return c.settings.TLS.Use(name) != config.UseNone
	})
}

// refuse records and logs a transport that cannot be used.
func (c *Context) refuse(comp uct.Component, name string, err error) {
	c.skipped = append(c.skipped, skippedResource{name: name, reason: err.Error()})
	c.seenTransports = append(c.seenTransports, name) // the transport exists, but is not usable
	c.unsure = true
	const text = "transport not usable"
	fields := []zap.Field{zap.String("transport", name), zap.Error(err)}
	if errors.Is(err, ucs.ErrUnsupported) && (c.settings.TLS.String() == "all" || !c.wants(comp)) {
		c.log.Diag(text, fields...) // UCX_TLS does not name the transport
		return
	}
	c.log.WarnOnce(name+" "+err.Error(), text, fields...)
}

// skip records a transport that is not used, and logs it at level debug.
func (c *Context) skip(name string, err error) {
	c.skipped = append(c.skipped, skippedResource{name: name, reason: err.Error()})
	c.log.Debug("transport not used", zap.String("resource", name), zap.Error(err))
}

// Attr describes the context.
func (c *Context) Attr() ContextAttr {
	a := ContextAttr{RequestSize: requestSize, ThreadMode: ucs.ThreadModeSingle, Name: c.name}
	if c.params.MTWorkersShared {
		a.ThreadMode = ucs.ThreadModeMulti
	}
	for _, m := range c.mds {
		a.MemoryTypes = append(a.MemoryTypes, m.md.Attr().AccessTypes...)
	}
	slices.Sort(a.MemoryTypes)
	a.MemoryTypes = slices.Compact(a.MemoryTypes)
	return a
}

// Close releases the transports. Workers must be closed and memory unmapped before;
// otherwise Close fails with ucs.ErrBusy. A second Close does nothing.
func (c *Context) Close() error {
	if c.missing() {
		return errMissing("Context.Close", c == nil)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.workers > 0 {
		return fmt.Errorf("ucp: context %s has %d open workers: %w", c.name, c.workers, ucs.ErrBusy)
	}
	if n := len(c.memories); n > 0 {
		return fmt.Errorf("ucp: context %s has %d memory handles: %w", c.name, n, ucs.ErrBusy)
	}
	c.closed = true
	return c.closeMDs()
}

// closeMDs closes the memory domains and returns the first error. The domains stay in c.mds,
// because Attr and WriteInfo may be called meanwhile.
func (c *Context) closeMDs() error {
	var first error
	for _, m := range c.mds {
		if err := m.md.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// addWorker counts a worker that is opened, and dropWorker removes one that is closed. addWorker
// fails if the context is closed.
func (c *Context) addWorker() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("ucp: context %s is closed: %w", c.name, ucs.ErrInvalidParam)
	}
	c.workers++
	return nil
}

func (c *Context) dropWorker() {
	c.mu.Lock()
	c.workers--
	c.mu.Unlock()
}

// estimates returns the numbers of endpoints and of processes per host that the selection of
// transports assumes.
func (c *Context) estimates() (eps, ppn int) {
	return c.settings.NumEPs.Int(max(c.params.EstimatedEndpoints, 1)),
		c.settings.NumPPN.Int(max(c.params.EstimatedPPN, 1))
}

// WriteInfo lists the components of the library and the memory domains and transports of
// the context in the layout of ucx_info -p, followed by the transports that are not used,
// with the reasons.
func (c *Context) WriteInfo(w io.Writer) error {
	if c.missing() {
		return errMissing("Context.WriteInfo", c == nil)
	}
	ew := errWriter{w: w}
	ew.printf("#\n# UCP context\n#\n")
	numbers := make(map[string]int)
	for i, comp := range uct.Components() {
		numbers[comp.Name()] = i
		ew.printf("#     component %-2d :  %s\n", i, comp.Name())
	}
	ew.printf("#\n")
	for i, m := range c.mds {
		ew.printf("#            md %-2d :  component %-2d %s \n", i, numbers[m.component.Name()], m.md.Attr().Name)
	}
	ew.printf("#\n")
	devices := make(map[string]int) // numbers of the devices by name, as C UCX counts them
	for i, r := range c.resources {
		if _, ok := devices[r.Device]; !ok {
			devices[r.Device] = len(devices)
		}
		flags := "--"
		if r.auxiliary {
			flags = "a-" // only for the wireup of other transports
		}
		ew.printf("#      resource %-2d :  md %-2d dev %-2d flags %s %s\n", i, r.md, devices[r.Device], flags, r)
	}
	ew.printf("#\n")
	for _, s := range c.skipped {
		ew.printf("#      not used    :  %s\n", s)
	}
	if len(c.skipped) > 0 {
		ew.printf("#\n")
	}
	return ew.err
}

// errWriter prints until the first error, and keeps that error.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

// Features select the families of operations that a context is used for (enum ucp_feature).
// An operation of a family that was not requested fails with ucs.ErrInvalidParam.
// FeatureExportedMemh needs a memory domain that exports memory (uct.DeviceMemory). No
// transport of this library has one, so NewContext fails with it.
type Features uint64

// Features, with C's bit numbers.
const (
	FeatureTag          Features = 1 << 0
	FeatureRMA          Features = 1 << 1
	FeatureAMO32        Features = 1 << 2
	FeatureAMO64        Features = 1 << 3
	FeatureWakeup       Features = 1 << 4
	FeatureStream       Features = 1 << 5
	FeatureAM           Features = 1 << 6
	FeatureExportedMemh Features = 1 << 7

	featuresKnown = FeatureExportedMemh<<1 - 1
)

var featureNames = [...]string{"tag", "rma", "amo32", "amo64", "wakeup", "stream", "am", "exported_memh"}

// check returns ucs.ErrInvalidParam for unknown features.
func (f Features) check() error {
	if unknown := f &^ featuresKnown; unknown != 0 {
		return fmt.Errorf("ucp: unknown features %#x: %w", uint64(unknown), ucs.ErrInvalidParam)
	}
	return nil
}

// String lists the features by name.
func (f Features) String() string {
	var names []string
	for i, n := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}

// Tag is the 64-bit label that receives match messages by.
type Tag uint64

// FullMask makes a receive match one tag exactly.
const FullMask Tag = ^Tag(0)

// TagRecvInfo describes the message that a receive got.
type TagRecvInfo struct {
	SenderTag Tag // the sender's tag, all 64 bits
	Length    int // length of the message in bytes
}

// deviceSettings are the settings that select devices, one for each kind of device.
var deviceSettings = [...]string{"UCX_NET_DEVICES", "UCX_SHM_DEVICES", "UCX_ACC_DEVICES", "UCX_SELF_DEVICES"}

// deviceSetting returns the index in deviceSettings of the setting that selects devices of type t.
func deviceSetting(t uct.DeviceType) int {
	switch t {
	case uct.DeviceNetwork:
		return 0
	case uct.DeviceShared:
		return 1
	case uct.DeviceAccelerator:
		return 2
	}
	return 3
}

// devices returns the value of a setting, given by its index in deviceSettings.
func (c *Context) devices(setting int) *config.List {
	s := &c.settings
	return [len(deviceSettings)]*config.List{&s.NetDevices, &s.ShmDevices, &s.AccDevices, &s.SelfDevices}[setting]
}

// noDevice records that the transports of a component are not used, because the component has no
// device on this machine (the error why) or UCX_TLS excludes them.
func (c *Context) noDevice(comp uct.Component, why error) {
	for _, name := range comp.Transports() {
		if c.settings.TLS.Use(name) == config.UseNone {
			c.skip(name, errNotInTLS)
			continue
		}
		c.skip(name, why)
	}
}

// unknownTransports returns the names in UCX_TLS that are not names of transports on any machine.
func (c *Context) unknownTransports() []config.UnknownName {
	known := append([]string{transports.Encrypting}, c.seenTransports...)
	for _, s := range c.skipped {
		known = append(known, s.transport())
	}
	return c.settings.TLS.UnknownTransports(known)
}

// warnMissing logs warnings about transports and devices that the settings name and that do not
// exist, including unknown names of transports after ^.
func (c *Context) warnMissing() {
	for _, u := range c.unknownTransports() {
		fields := []zap.Field{zap.String("transport", u.Name)}
		if u.Nearest != "" {
			fields = append(fields, zap.String("nearest", u.Nearest))
		}
		c.log.WarnOnce(u.Name, "unknown transport in UCX_TLS", fields...)
	}
	for _, item := range c.absentTransports() {
		fields := []zap.Field{zap.String("transport", item)}
		if why := c.whyNot(item); why != "" {
			fields = append(fields, zap.String("reason", why))
		} else {
			fields = append(fields, zap.Strings("available", unique(c.seenTransports)))
		}
		c.log.WarnOnce(item, "transport in UCX_TLS is not available", fields...)
	}
	for k, name := range deviceSettings {
		for _, item := range c.absentDevices(k) {
			c.log.WarnOnce(item, "device in "+name+" is not available", zap.String("device", item),
				zap.Strings("available", unique(c.seenDevices[k])))
		}
	}
}

// absentTransports returns the items of UCX_TLS that stand for known transports which this machine
// does not have.
func (c *Context) absentTransports() []string {
	unknown := c.unknownTransports()
	return slices.DeleteFunc(c.settings.TLS.Missing(c.seenTransports), func(item string) bool {
		return slices.ContainsFunc(unknown, func(u config.UnknownName) bool { return u.Name == item })
	})
}

// absentDevices returns the items of a setting of devices that this machine does not have. It
// returns nil if a transport could not be used, because that transport may have the devices.
func (c *Context) absentDevices(setting int) []string {
	if c.unsure {
		return nil
	}
	return c.devices(setting).MissingDevices(c.seenDevices[setting])
}

// whyNot returns the recorded reason why the transports that an item of UCX_TLS stands for are not
// used, "" if there is none.
func (c *Context) whyNot(item string) string {
	for _, s := range c.skipped {
		if config.TransportItem(item).Selects(s.transport()) && s.reason != errNotInTLS.Error() {
			return s.reason
		}
	}
	return ""
}

// transport returns the name of the transport, without the device.
func (s skippedResource) transport() string {
	name, _, _ := strings.Cut(s.name, "/")
	return name
}

// nothingLeft returns the error that says why the context has no transport: unknown names in
// UCX_TLS, transports that UCX_TLS allows and that are not used, and devices that this machine does
// not have. Transports that UCX_TLS does not allow are not mentioned.
func (c *Context) nothingLeft() error {
	var reasons []string
	unknown := c.unknownTransports()
	for _, u := range unknown {
		text := "unknown transport " + u.Name + " in UCX_TLS"
		if u.Nearest != "" {
			text += ", nearest " + u.Nearest
		}
		reasons = append(reasons, text)
	}
	if len(unknown) > 0 && c.settings.TLS.List().Mode == config.ListAllow && len(unknown) == len(c.settings.TLS.List().Items) {
		return fmt.Errorf("ucp: %s: %w", strings.Join(reasons, "; "), ucs.ErrNoDevice)
	}
	for _, item := range c.absentTransports() {
		if c.whyNot(item) == "" {
			reasons = append(reasons, "no transport "+item+" on this machine or in this library")
		}
	}
	reasons = append(reasons, c.skippedAsked()...)
	for k, name := range deviceSettings {
		for _, item := range c.absentDevices(k) {
			reasons = append(reasons, fmt.Sprintf("no device %s (%s), available: %s", item, name, strings.Join(unique(c.seenDevices[k]), ", ")))
		}
	}
	if len(reasons) == 0 {
		reasons = []string{"all available transports are excluded: " + strings.Join(unique(c.seenTransports), ", ")}
	}
	return fmt.Errorf("ucp: no transport left by UCX_TLS=%s and the device settings: %s: %w",
		c.settings.TLS, strings.Join(reasons, "; "), ucs.ErrNoDevice)
}

// skippedAsked lists the transports that UCX_TLS allows and that are not used: one string for each
// reason, with the transports and the reason.
func (c *Context) skippedAsked() []string {
	var reasons []string
	names := make(map[string][]string) // by reason
	for _, s := range c.skipped {
		if s.reason == errNotInTLS.Error() || c.settings.TLS.Use(s.transport()) == config.UseNone {
			continue
		}
		if names[s.reason] == nil {
			reasons = append(reasons, s.reason)
		}
		names[s.reason] = append(names[s.reason], s.name)
	}
	for k, reason := range reasons {
		reasons[k] = strings.Join(names[reason], ", ") + ": " + reason
	}
	return reasons
}

// unique returns the names sorted and without repetitions.
func unique(names []string) []string {
	list := slices.Clone(names)
	slices.Sort(list)
	return slices.Compact(list)
}
