package ucp

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// WriteInfo prints the worker's name, the size of its address and the interfaces with
// hardware atomics in the layout of ucx_info -w, followed by the interfaces that could not
// be opened.
func (w *Worker) WriteInfo(out io.Writer) error {
	if w.missing() {
		return errMissing("Worker.WriteInfo", w == nil)
	}
	w.owner.acquireRead()
	text, err := w.info()
	w.owner.releaseRead()
	if err == nil {
		_, err = out.Write(text)
	}
	return err
}

func (w *Worker) info() ([]byte, error) {
	if err := w.own.packAddress(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	ew := errWriter{w: &b}
	ew.printf("#\n# UCP worker '%s'\n#\n", w.name)
	ew.printf("#                 address: %d bytes\n", len(w.own.address))
	if w.ctx.params.Features&(FeatureAMO32|FeatureAMO64) != 0 {
		var list []string
		for _, i := range w.ifaces {
			if proto.Caps(i.attr)&(proto.CapAtomic32|proto.CapAtomic64) != 0 {
				list = append(list, fmt.Sprintf("%d:%s", i.index, i.attr.Resource))
			}
		}
		ew.printf("#                 atomics: %s\n", strings.Join(list, ", "))
	}
	ew.printf("#\n")
	for _, s := range w.unopened {
		ew.printf("#                not used: %s\n", s)
	}
	if len(w.unopened) > 0 {
		ew.printf("#\n")
	}
	return b.Bytes(), nil
}

// WriteInfo prints the lanes and protocols of the endpoint in the layout of ucx_info -e of a
// release build of C UCX, which contains neither the name of the endpoint nor that of the peer,
// followed by the endpoint's name and the UID of the peer's worker.
func (ep *Endpoint) WriteInfo(w io.Writer) error {
	if ep.missing() {
		return errMissing("Endpoint.WriteInfo", ep == nil)
	}
	ep.w.owner.acquireRead()
	text := ep.w.selection.info(ep)
	ep.w.owner.releaseRead()
	_, err := w.Write(text)
	return err
}

func (ls *laneSelection) info(ep *Endpoint) []byte {
	e := ep.w.selection.explain(ep)
	var b bytes.Buffer
	ew := errWriter{w: &b}
	ew.printf("#\n# UCP endpoint \n#\n")
	ew.printf("#               peer: <no debug data>\n")
	lanes := e.Lanes
	if c := ep.conn(); c != nil && len(lanes) > 0 { // C UCX and the peer count the connection manager as lane 0
		lanes = append([]string{"lane[0]: cm " + ep.w.conns.managers[c.manager].name}, ep.cfg.chosen.LinesFrom(1)...)
	}
	for _, l := range lanes {
		ew.printf("#                 %s\n", l)
	}
	ew.printf("#\n")
	if ep.w.tag.on {
		owner := ep.w.ctx.name + " " + ep.w.selection.placement(ep)
		for _, t := range ep.cfg.explain(ep.w, ep) {
			for _, l := range t.Lines(owner) {
				ew.printf("# %s\n", l)
			}
		}
	}
	ew.printf("#           endpoint: %s\n#          peer uuid: %#x\n#\n", e.Endpoint, e.Peer)
	return b.Bytes()
}

// placement returns the location of the peer in the terms of ucx_info: "self" for the same worker,
// "intra-node" if a lane uses a device other than a network device, else "inter-node".
func (ls *laneSelection) placement(ep *Endpoint) string {
	if ep.peer == nil || ep.peer.UUID() == ep.w.uuid {
		return "self"
	}
	for i := range ep.lanes {
		if ep.lanes[i].iface.attr.Resource.Type != uct.DeviceNetwork {
			return "intra-node"
		}
	}
	return "inter-node"
}

// PerfParams are the parameters of Endpoint.EvaluatePerf.
type PerfParams struct {
	MessageSize int // bytes
}

// PerfAttr is the result of Endpoint.EvaluatePerf.
type PerfAttr struct {
	// EstimatedTime is the time until a message of contiguous memory is received, rounded
	// up, and at most math.MaxInt64 nanoseconds.
	EstimatedTime time.Duration
}

// EvaluatePerf estimates performance with the cost model that selects protocols (Explain),
// from the figures that transports announce; it measures nothing. The estimate never
// decreases with the message size. An endpoint that is still connecting by socket address
// gives ucs.ErrNotConnected; a failed one gives its error.
func (ep *Endpoint) EvaluatePerf(p PerfParams) (PerfAttr, error) {
	if ep.missing() {
		return PerfAttr{}, errMissing("Endpoint.EvaluatePerf", ep == nil)
	}
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	switch err := ep.gone(); {
	case p.MessageSize < 0:
		return PerfAttr{}, fmt.Errorf("ucp: a message of %d bytes: %w", p.MessageSize, ucs.ErrInvalidParam)
	case err != nil:
		return PerfAttr{}, err
	case len(ep.lanes) == 0:
		return PerfAttr{}, ucs.ErrNotConnected
	}
	form := proto.MessageForm{Only: tagForm.only.size, First: tagForm.first.size, Short: true}
	ns := math.Ceil(float64(proto.EstimateMessage(&ep.cfg.costs, form, p.MessageSize)) * 1e9)
	if !(ns < math.MaxInt64) {
		return PerfAttr{EstimatedTime: math.MaxInt64}, nil
	}
	return PerfAttr{EstimatedTime: time.Duration(ns)}, nil
}

// Stats are the counters of a worker. They are always on.
type Stats struct {
	TagSends    uint64 // tagged messages sent or offered
	TagRecvs    uint64 // receives posted
	StreamSends uint64 // stream sends
	StreamRecvs uint64 // stream receives posted, or done in the call
	AMSends     uint64 // active messages sent or offered
	AMRecvs     uint64 // active messages given to a handler, or taken out of a queue
	AMNoHandler uint64 // active messages that arrived for an id without a handler
	EagerShort  uint64 // messages sent by each protocol
	EagerBcopy  uint64
	EagerZcopy  uint64
	EagerMulti  uint64
	RndvSends   uint64
	RndvPut     uint64 // rendezvous served by writing to the receiver
	RndvAM      uint64 // rendezvous whose data was sent in messages
	RndvRecvs   uint64
	RndvGet     uint64 // rendezvous received by reading the sender's memory
	RndvPtr     uint64 // rendezvous received by copying from the sender's memory, mapped here
	Unexpected  uint64 // messages that arrived before a matching receive
	Pending     uint64 // sends that had to wait for the transport
	Malformed   uint64 // malformed messages
	Evicted     uint64 // connections dropped at a limit, because the worker held the most for them
	Refused     uint64 // requests of peers refused: no room, or not permitted
	Paused      uint64 // connections not read for a while, because the peer did not read its replies
	HeldBack    uint64 // peers whose requests waited in queues for a while, because the peer did not read its replies
	Stopped     uint64 // connections not read for a while, because the application did not read a stream
	Abandoned   uint64 // messages in packets that were lost before they were complete: with their connection, or by a limit
	Dropped     uint64 // messages for endpoints or requests that no longer exist
	Failed      uint64 // requests that ended with an error
	Failures    uint64 // endpoints that failed
	Requests    uint64 // request objects made
	Puts        uint64 // one-sided operations started
	Gets        uint64
	Atomics     uint64
	Served      uint64 // one-sided operations of peers carried out by messages
	Denied      uint64 // one-sided operations of peers refused: the memory was not registered for them
	SyncAcks    uint64 // acknowledgements of synchronous sends that were sent
	WireupSent  uint64 // wireup messages
	WireupRecvd uint64

	Endpoints       int // open endpoints, including those that peers opened
	UnexpectedBytes int // bytes of messages without a receive
	OwedBytes       int // bytes of replies that peers have not read, including other sends over endpoints that peers opened
	Sources         int // connections for which the worker holds messages, endpoints or unread replies
}

// countSent counts a sent message. The parameter way is the counter of its protocol; the form of
// the message has the counter of its family.
func (r *Request) countSent(way *uint64) {
	*way++
	if sends := r.form.sends; sends != nil {
		*sends(&r.w.stats)++
	}
}

// The release of the C API whose behavior and names this package follows.
const (
	apiMajor   = 1
	apiMinor   = 22
	apiRelease = 0
)

// Version returns the release of the UCX API this package implements.
func Version() (major, minor, release int) { return apiMajor, apiMinor, apiRelease }

// VersionString returns Version as "major.minor.release".
func VersionString() string { return fmt.Sprintf("%d.%d.%d", apiMajor, apiMinor, apiRelease) }

// LibraryAttr describes the library.
type LibraryAttr struct {
	MaxThreadMode ucs.ThreadMode // the highest thread mode that a worker can have
}

// Library describes the library. It needs no context.
func Library() LibraryAttr { return LibraryAttr{MaxThreadMode: maxThreadMode} }

// logOpened logs the transports and devices that the worker has opened.
func (w *Worker) logOpened() {
	if !w.ctx.log.Enabled(log.LevelInfo) {
		return
	}
	var names []string
	for _, i := range w.ifaces {
		names = append(names, i.attr.Resource.String())
	}
	w.ctx.log.Info("worker uses", zap.String("worker", w.name), zap.Strings("transports", names))
}

// logLanes logs the lanes of endpoint configuration number, in the format of C UCX
// (ucp_worker_print_used_tls in src/ucp/core/ucp_worker.c).
func (w *Worker) logLanes(number int, chosen *proto.LaneConfig) {
	if w.ctx.log.Enabled(log.LevelInfo) {
		w.ctx.log.Info("ep_cfg["+strconv.Itoa(number)+"]: "+w.usedLanes(chosen), zap.String("worker", w.name))
	}
}

// usedLanes lists, for each feature of the context, the lanes that the feature uses, each lane once.
func (w *Worker) usedLanes(c *proto.LaneConfig) string {
	var parts []string
	for _, f := range []struct {
		name     string
		features Features
		lanes    [][]uint8
	}{
		{"tag", FeatureTag, [][]uint8{{c.AM}, c.AMBW, c.RMABW, {c.RkeyPtr}}},
		{"am", FeatureAM, [][]uint8{{c.AM}, c.AMBW, c.RMABW, {c.RkeyPtr}}},
		{"stream", FeatureStream, [][]uint8{{c.AM}, c.AMBW, c.RMABW}},
		{"rma", FeatureRMA, [][]uint8{c.RMA, c.RMABW}},
		{"amo", FeatureAMO32 | FeatureAMO64, [][]uint8{c.AMO}},
	} {
		if w.ctx.params.Features&f.features == 0 {
			continue
		}
		names := namesOf(c, f.lanes)
		if names == nil {
			names = namesOf(c, [][]uint8{{c.AM}}) // messages serve the operations
		}
		parts = append(parts, f.name+"("+strings.Join(names, " ")+")")
	}
	return strings.Join(parts, " ")
}

// namesOf lists the transports and devices of lanes, in the order of the lanes.
func namesOf(c *proto.LaneConfig, lists [][]uint8) (names []string) {
	for k := range c.Lanes {
		for _, list := range lists {
			if slices.Contains(list, uint8(k)) && c.Lanes[k].Local >= 0 {
				names = append(names, c.Lanes[k].Name)
				break
			}
		}
	}
	return names
}
