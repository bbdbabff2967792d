package ucp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucp/internal/regions"
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
	// handshakes. If one panics its handshake fails: the panic is logged with the stack,
	// and an endpoint of this side fails with a tcp.HandshakePanic in its error. A peer has
	// ten seconds to finish a handshake; then its connection is closed, and an endpoint to
	// it fails with ucs.ErrTimedOut. WorkerParams.Accept is called twice. Sessions are
	// resumed if ClientSessionCache is set and SessionTicketsDisabled is not. MinVersion is
	// never below TLS 1.3; NextProtos is "ucx" if empty. The configuration is copied; one
	// that cannot work gives ucs.ErrInvalidParam.
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
	log      *log.Logger // ContextParams.Logger, or the process's
	set      *config.Set
	settings settings

	mds       []openMD
	resources []resource
	skipped   []skippedResource

	seenTransports []string                      // of this machine, whether or not allowed
	seenDevices    [len(deviceSettings)][]string // by their setting
	unsure         bool                          // a transport that was refused may have more

	table regions.Table // memory that peers may access by messages
	pins  *regions.PinBoard

	mu       sync.Mutex
	workers  int                  // open workers, guarded by mu
	memories map[*Memory]struct{} // registered, guarded by mu
	closed   bool                 // guarded by mu
}

// openMD is a memory domain in use. Its position in Context.mds is the index
// that travels in addresses and keys.
type openMD struct {
	component uct.Component
	md        uct.MemoryDomain
}

// resource is a transport on a device that workers open. Its position in
// Context.resources is its resource index.
type resource struct {
	uct.Resource
	md        int
	auxiliary bool // serves other transports only
}

// skippedResource is a transport that is not used, and why.
type skippedResource struct {
	name   string
	reason string
}

func (s skippedResource) String() string { return s.name + ": " + s.reason }

// maxContextMDs keeps memory domain indices in the five bits that every release
// of C reads from an address.
const maxContextMDs = 32

// contextSeq numbers contexts without a name.
var contextSeq atomic.Uint64

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
	c.name = entityName(p.Name, "ucp-context", &contextSeq)
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

// entityName cuts a name to its limit or makes one up.
func entityName(name, kind string, seq *atomic.Uint64) string {
	if name == "" {
		name = fmt.Sprintf("%s-%d-%d", kind, os.Getpid(), seq.Add(1))
	}
	return name[:min(len(name), EntityNameMax-1)]
}

// openResources opens the memory domains that have an allowed resource.
func (c *Context) openResources() error {
	c.skipped = append(c.skipped, absent...)
	components := uct.Components()
	if c.params.TLS != nil {
		tls, err := encrypted(c.params.TLS)
		if err != nil {
			return fmt.Errorf("ucp: ContextParams.TLS: %w", err)
		}
		components = append(components, tls)
	} else if slices.Contains(c.settings.TLS.Missing(nil), encrypting) {
		c.skip(encrypting, errNoConfig)
	}
	for _, comp := range components {
		mds, err := comp.MemoryDomains(c.set)
		if err != nil {
			c.refuse(comp, comp.Name(), err)
			continue
		}
		if len(mds) == 0 {
			c.noDevice(comp)
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

// openMD opens one domain and keeps it if one of its resources is wanted.
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
	if l, ok := md.(uct.Lacking); ok {
		l.Lacks(func(resource string, why error) bool {
			c.skip(resource, why)
			return true
		})
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

// allowed reports why the settings rule a resource out.
func (c *Context) allowed(r uct.Resource) error {
	if c.settings.TLS.Use(r.Transport) == config.UseNone {
		return errNotInTLS
	}
	if c.params.RequireTLS && r.Type == uct.DeviceNetwork && r.Transport != encrypting {
		return errNotEncrypted
	}
	devices := c.devices(deviceSetting(r.Type))
	if !devices.MatchDevice(r.Device) {
		return errNotInDevices
	}
	return nil
}

// wants reports whether the settings let some transport of a component be used.
func (c *Context) wants(comp uct.Component) bool {
	transports := []string{comp.Name()}
	if d, ok := comp.(uct.Deviceless); ok {
		transports = d.Transports()
	}
	return slices.ContainsFunc(transports, func(name string) bool {
		return c.settings.TLS.Use(name) != config.UseNone
	})
}

// refuse records a transport that cannot be used and says so.
func (c *Context) refuse(comp uct.Component, name string, err error) {
	c.skipped = append(c.skipped, skippedResource{name: name, reason: err.Error()})
	c.seenTransports = append(c.seenTransports, name) // it is there, but not usable
	c.unsure = true
	const text = "transport not usable"
	fields := []zap.Field{zap.String("transport", name), zap.Error(err)}
	if errors.Is(err, ucs.ErrUnsupported) && (c.settings.TLS.String() == "all" || !c.wants(comp)) {
		c.log.Diag(text, fields...) // nobody has asked for it
		return
	}
	c.log.WarnOnce(name+" "+err.Error(), text, fields...)
}

// skip records a transport that is not wanted.
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

// closeMDs closes the domains. They stay known: Attr and WriteInfo may be called meanwhile.
func (c *Context) closeMDs() error {
	var first error
	for _, m := range c.mds {
		if err := m.md.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// addWorker counts an opened worker, dropWorker a closed one.
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

// estimates are the numbers of endpoints and of processes per host that the
// choice of transports assumes.
func (c *Context) estimates() (eps, ppn int) {
	return c.settings.NumEPs.Int(max(c.params.EstimatedEndpoints, 1)),
		c.settings.NumPPN.Int(max(c.params.EstimatedPPN, 1))
}
