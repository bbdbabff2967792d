package ucp

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// AMMessage is an active message, as a handler gets it or as it leaves an AMQueue. The message
// belongs to its worker's goroutine, or in ThreadModeMulti to the goroutine that holds it.
//
// A message is valid until its handler returns. A message that is kept, or taken from a queue,
// belongs to the application until Release or Recv, or until the worker is closed. Until then the
// message is charged to the peer (UCX_MAX_UNEXP_BYTES), so release kept messages in time.
// Afterwards the message must not be used, because its object is reused for other messages. A use
// after release panics where it is detected, as with Request.Free; detection is certain until 16
// more messages have come.
type AMMessage struct {
	_ noCopy

	w *Worker

	state   amMessageState // written by the goroutine that holds the message, and by the worker
	handled bool           // its handler is running; unlike state, accessed by the worker only
	place   uint8          // its index in amState.resting, where it was put last
	id      uint16
	was     gate // the worker's gate before the handler, in onAMSingle
	header  []byte
	data    []byte
	length  int // length of the data in bytes, also while the data is at the sender

	ep        *Endpoint // endpoint to the sender, nil if the message does not name one
	desc      *uct.AMDesc
	buf       []byte // pooled memory that contains header and data, nil if there is none
	loopHolds *bool  // in a loop over AMQueue.All: whether the loop must release the message; else nil

	rndv proto.RndvRTS // the rendezvous offer, if amOffered is set
	key  []byte        // packed remote key of the sender's memory, in an offer

	from     *source   // the connection that brought the message and is charged for it
	charged  int       // bytes that from is charged with for this message
	assembly *assembly // state of a message in fragments, until it is complete

	node     list.Node[AMMessage]   // in the one list that holds the message, or among the idle objects
	ofSource list.Member[AMMessage] // in the set of the queued messages of one source
}

// amMessageState is a set of flags about a message.
type amMessageState uint16

const (
	amLive           amMessageState = 1 << iota // the application may use it
	amKept                                      // it stays valid after the handler returns
	amReceived                                  // Recv was called
	amOffered                                   // the data is at the sender
	amReplies                                   // the sender has set AMSendReply: ep is for replies
	amHeldOnEndpoint                            // it is counted in Endpoint.held
	amWhole                                     // all fragments have arrived
	amOwned                                     // header, key or data were copied (AMMessage.own)
	amHeldBack                                  // it is in an aside: its sender has too many unread replies
	amGivenUp                                   // it is dropped when the fetch of its data ends
)

// amMessageSize is the charge for a message object, in bytes.
const amMessageSize = 320

// newAM takes a message object from the worker's free list, or makes one.
func (as *amState) newAM() *AMMessage {
	if as.free.Empty() {
		return as.makeAM()
	}
	as.idle--
	return as.free.Pop()
}

func (as *amState) makeAM() *AMMessage {
	m := &AMMessage{w: as.w}
	m.node.Value, m.ofSource.Value = m, m
	return m
}

// restingAMs is the number of message objects that rest before they are reused, a power of two.
const restingAMs = 16

// maxIdleAMs bounds the idle message objects of a worker.
const maxIdleAMs = 4096

// restAM takes back a message object that refers to nothing. The object is not reused for a while
// (restingAMs), so that a use after release is detected.
func (as *amState) restAM(m *AMMessage) {
	if !recycleRequests {
		return
	}
	m.place = uint8(as.rested % restingAMs)
	at := &as.resting[as.rested%restingAMs]
	as.rested++
	old := *at
	*at = m
	if old != nil && old.state == 0 && as.idle < maxIdleAMs { // else onAMSingle uses it
		as.idle++
		as.free.Push(&old.node)
	}
}

// drop ends the life of a message. The memory that the message holds goes back to the transport or
// the pool, and the message's source is discharged.
func (m *AMMessage) drop() {
	w := m.w
	if m.node.Linked() {
		m.node.Remove()
	}
	m.unhold()
	m.discharge()
	if m.desc != nil {
		m.desc.Release()
		m.desc = nil
	}
	if m.buf != nil {
		w.buffers.Put(m.buf)
		m.buf = nil
	}
	m.header, m.data, m.key, m.ep, m.from, m.assembly = nil, nil, nil, nil, nil, nil
	m.state = 0
	m.leaveLoop()
	w.am.restAM(m)
}

// charge charges the message's source with n bytes more.
func (m *AMMessage) charge(n int) {
	m.charged += n
	m.from.AddBytes(n)
}

// discharge ends the charge of the message's source for the message.
func (m *AMMessage) discharge() {
	if m.charged > 0 {
		m.from.SubBytes(m.charged)
		m.charged = 0
	}
}

// hold keeps the endpoint that leads to the sender from being evicted (wireupFamily.evict),
// because the application may be about to reply on it.
func (m *AMMessage) hold() {
	if m.ep != nil {
		m.ep.held++
		m.state |= amHeldOnEndpoint
	}
}

func (m *AMMessage) unhold() {
	if m.state&amHeldOnEndpoint != 0 {
		m.state &^= amHeldOnEndpoint
		m.ep.held--
		m.ep.w.ends.reportIfQuiet(m.ep)
	}
}

// own copies data, header and key into pooled memory of the message, unless the message has pooled
// memory or a transport's descriptor already. The data comes first, at a multiple of the alignment,
// then the header and the key. Data that is still at the sender is not copied.
func (m *AMMessage) own() {
	if m.buf != nil || m.desc != nil {
		return
	}
	n := len(m.data)
	if n+len(m.header)+len(m.key) == 0 {
		return
	}
	m.state |= amOwned
	var b []byte
	m.buf, b = m.w.am.alignedBuffer(n + len(m.header) + len(m.key))
	if m.state&amOffered == 0 {
		m.data = b[:cpu.Copy(b, m.data):n]
	}
	h := n + copy(b[n:], m.header)
	m.header = b[n:h:h]
	m.key = b[h : h+copy(b[h:], m.key)]
}

// alignedBuffer returns pooled memory: buf is to be returned to the pool, and b are the n bytes of
// buf that start at a multiple of the alignment (WorkerParams.AMAlignment).
func (as *amState) alignedBuffer(n int) (buf, b []byte) {
	w := as.w
	buf = w.buffers.Get(n)
	off := as.misaligned(buf)
	if off > 0 && off+n > cap(buf) {
		w.buffers.Put(buf)
		buf = w.buffers.Get(n + w.params.AMAlignment - 1)
		off = as.misaligned(buf)
	}
	return buf, buf[off : off+n : off+n]
}

// misaligned returns the number of bytes from the start of b to the next multiple of the
// alignment.
func (as *amState) misaligned(b []byte) int {
	w := as.w
	if w.params.AMAlignment <= 1 {
		return 0
	}
	return int(-word.Address(b) & uint64(w.params.AMAlignment-1))
}

// mustLive panics if the application may no longer use the message.
func (m *AMMessage) mustLive() {
	if m.state&amLive == 0 {
		panic(amUsedAfterRelease)
	}
}

// amUsedAfterRelease is the panic value of a use after release, converted to an interface once.
var amUsedAfterRelease any = "ucp: active message used after Release or Recv, or after its handler"

// ID returns the id of the message.
func (m *AMMessage) ID() uint16 {
	m.mustLive()
	return m.id
}

// Header returns the sender's header. The header is valid as long as the message.
func (m *AMMessage) Header() []byte {
	m.mustLive()
	return m.header
}

// Data returns the data of the message, or nil while the data is still at the sender (Offered).
// The data is valid as long as the message, and until Recv. Keep may move the data, unless the
// handler was set with AMPersistentData.
func (m *AMMessage) Data() []byte {
	m.mustLive()
	return m.data
}

// Len returns the length of the data in bytes, wherever the data is. For data at the sender
// the length is the sender's claim and may be up to 128 TiB: check it before you allocate
// memory.
func (m *AMMessage) Len() int {
	m.mustLive()
	return m.length
}

// Offered reports whether the data is still at the sender, from where Recv fetches it.
func (m *AMMessage) Offered() bool {
	m.mustLive()
	return m.state&amOffered != 0
}

// Reply returns the endpoint to reply on, or nil unless the sender has set AMSendReply. The
// endpoint belongs to the library and must not be closed, unless the application made it. The
// endpoint stays open while the message is held; afterwards the library may close it when room is
// needed (UCX_MAX_UNEXP_EPS). The endpoint ends with its peer. An application that replies later
// makes an endpoint of its own. Replies that the peer does not read are bounded; see the package
// comment.
func (m *AMMessage) Reply() *Endpoint {
	m.mustLive()
	if m.state&amReplies == 0 {
		return nil
	}
	return m.ep
}

// Keep keeps the message valid after the handler has returned, until Release or Recv. In a
// loop over AMQueue.All it keeps the message beyond the iteration. Header stays valid; Data
// may be copied and move, unless the handler was set with AMPersistentData. Keep panics
// after Recv.
func (m *AMMessage) Keep() {
	m.mustLive()
	if m.state&amReceived != 0 {
		panic("ucp: an active message was kept after Recv")
	}
	m.leaveLoop()
	if m.state&amKept == 0 && m.handled {
		m.own()
		m.state |= amKept
	}
}

// leaveLoop keeps the loop over AMQueue.All that got the message, if any, from releasing it at the
// end of the iteration.
func (m *AMMessage) leaveLoop() {
	if m.loopHolds != nil {
		*m.loopHolds = false
		m.loopHolds = nil
	}
}

// Release gives up a message that was kept, or taken from a queue. Data that is still at
// the sender is not fetched, and the sender's request ends with success. In a handler
// Release undoes Keep. A second Release panics.
func (m *AMMessage) Release() {
	m.mustLive()
	w := m.w
	w.owner.acquire()
	if m.handled {
		m.state &^= amKept
	} else {
		m.refuse(ucs.OK)
		m.drop()
	}
	w.owner.release()
}

// refuse ends a rendezvous offer whose data was neither received nor requested: the sender's
// request ends with status. For other messages refuse does nothing.
func (m *AMMessage) refuse(status ucs.Status) {
	if m.state&(amOffered|amReceived) != amOffered {
		return
	}
	w := m.w
	if ep := w.endpoints.Get(uint64(m.rndv.EpID)); ep != nil && ep.err == nil {
		was := w.accounts.rndvSource
		w.accounts.rndvSource = m.from
		ep.w.rndv.sendATS(ep, m.rndv.ReqID, m.rndv.Size, status)
		w.accounts.rndvSource = was
	}
}

var errNoAM = fmt.Errorf("ucp: the active message was received or released before: %w", ucs.ErrInvalidParam)

// Active messages that the application keeps stay charged to the peers that have sent them until
// they are released. Otherwise peers could fill the memory through a handler that never releases a
// message. Tagged messages that the application has taken are not charged, because the application
// has asked for them.
//
// If kept messages exceed the budget of the process, the connection that sends more is dropped.
// Over shared memory the sender is not known, so messages for handlers are dropped there until the
// application releases messages.

// chargeKept charges a message that now belongs to the application, unless it is charged already.
// If this exceeds the limit, the message's connection is dropped; after a message without a
// connection the worker drops later ones (amState.keptOverLimit).
func (m *AMMessage) chargeKept() {
	if m.charged > 0 {
		return
	}
	w, n := m.w, amMessageSize+cap(m.buf)
	if m.desc != nil {
		n += keeps(m.data, m.desc)
	}
	err := m.from.Charge(n)
	m.charge(n)
	switch {
	case err == nil:
	case m.from.uct != nil:
		m.from.uct.Drop(err)
	default:
		w.am.setKeptOverLimit(true)
	}
}

// dropsKept reports whether a message that came without a connection must be dropped, because the
// application keeps too many messages. A rendezvous offer is then refused with ucs.ErrNoMemory.
func (m *AMMessage) dropsKept() bool {
	w := m.w
	if m.from.uct != nil {
		return false
	}
	if w.accounts.unnamed.TryCharge(0) {
		w.am.setKeptOverLimit(false)
		return false
	}
	if w.refused(m.from, ledger.Memory) {
		w.ctx.log.Warn("active message dropped: the program keeps too many", zap.String("worker", w.name), zap.Int("bytes", w.accounts.Held()))
	}
	m.refuse(ucs.ErrNoMemory)
	return true
}

// callAMRecv says which flags and parameters a receive of an active message takes.
var callAMRecv = callRule{"a receive of an active message", accessFlags, paramBuffer | paramOnAMRecv | paramRecvLength | paramMemoryType}

// Recv receives the data: it fetches the data from the sender, or copies what has already
// arrived. Data longer than buf ends the receive with ucs.ErrMessageTruncated, and the
// sender's request with success.
//
// Recv consumes the message, whatever it returns. The exception is OpForceImmediate: if the
// data is still at the sender, Recv returns ucs.ErrNoResource and the message stays the
// caller's. Within the handler Header, and Data if it has arrived, stay valid until the
// handler returns. A second Recv gives ucs.ErrInvalidParam.
//
// The receive cannot be canceled, and ends at the latest when the endpoint to the sender ends.
func (m *AMMessage) Recv(buf []byte, p *RequestParams) (*Request, error) {
	if m.missing() {
		return nil, errMissing("AMMessage.Recv", m == nil)
	}
	w := m.w
	w.owner.acquire()
	r, err := m.recv(buf, p)
	w.owner.release()
	return r, err
}

// RecvWait receives the data as Recv does, waits until the data is in buf, and returns its
// length. The receive cannot be canceled: if ctx ends while data is being fetched from the
// sender, RecvWait still waits for that data, until the endpoint to the sender ends. RecvWait
// must not be called in a handler; call Keep there, and RecvWait afterwards.
func (m *AMMessage) RecvWait(ctx context.Context, buf []byte) (int, error) {
	if m.missing() {
		return 0, errMissing("AMMessage.RecvWait", m == nil)
	}
	c, err := m.w.waitingCall(startAMRecv)
	if err != nil {
		return 0, err
	}
	c.am, c.buf = m, buf
	n := 0
	c.use, c.p = memoryWritten, &c.params
	c.p.RecvLength = &c.length
	lost, err := c.await(ctx)
	if lost {
		return 0, err
	}
	if err == nil {
		n = max(c.length, c.info.Length)
	}
	c.drop()
	return n, err
}

func startAMRecv(c *call) (*Request, error) { return c.am.recv(c.buf, c.p) }

func (m *AMMessage) recv(buf []byte, p *RequestParams) (*Request, error) {
	w := m.w
	if m.state&(amLive|amReceived) != amLive {
		return nil, errNoAM
	}
	err := callAMRecv.check(buf, p)
	if err == nil && p != nil && p.Flags&OpForceImmediate != 0 && m.state&amOffered != 0 {
		return nil, ucs.ErrNoResource
	}
	var r *Request
	if err == nil {
		r, err = w.pool.useRequest(p)
	}
	if err == nil {
		r.state |= stateAMRecv
		r.data.SetBytes(buf)
		if p != nil {
			r.onRecv = p.OnAMRecv
			if p.Buffer.set {
				err = r.setBuffer(&p.Buffer, false)
			}
			if err != nil {
				w.pool.dropRequest(r)
			}
		}
	}
	if err != nil {
		m.refuse(ucs.OK)
		m.taken()
		return nil, err
	}
	r.info = TagRecvInfo{Length: m.length}
	if m.state&amOffered != 0 {
		was := w.accounts.rndvSource
		w.accounts.rndvSource = m.from
		w.rndv.fetch(r, &m.rndv, m.key)
		w.accounts.rndvSource = was
	} else {
		r.w.am.takeData(r, m.data)
	}
	m.taken()
	n := r.info.Length
	req, err := r.result()
	if req == nil && err == nil && p != nil && p.RecvLength != nil {
		*p.RecvLength = n
	}
	return req, err
}

// taken ends a message whose receive was started or has failed. While the message's handler runs,
// the message stays valid until the handler returns.
func (m *AMMessage) taken() {
	if m.handled {
		m.state |= amReceived
		m.state &^= amKept
	} else {
		m.drop()
	}
}

// takeData copies data that has already arrived into the buffer of the receive r, and ends r.
func (as *amState) takeData(r *Request, data []byte) {
	if len(data) > r.data.Length {
		r.finish(ucs.ErrMessageTruncated)
		return
	}
	r.finish(unpackData(r, data, 0))
}
