package ucp

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
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
// more messages have been released.
type AMMessage struct {
	_ noCopy

	w *Worker

	state   amMessageState // written by the holder of the message, and inside the worker
	handled bool           // its handler is running; accessed inside the worker only, unlike state
	id      uint16
	header  []byte
	data    []byte
	length  int // of the data in bytes, wherever the data is

	ep   *Endpoint // leads to the sender, nil if the message names none
	desc *uct.AMDesc
	buf  []byte // pooled memory behind header and data
	turn *bool  // of AMQueue.All: whether the iteration still holds the message

	rndv proto.RndvRTS // the offer
	key  []byte        // packed remote key of the sender's memory, in an offer

	from     *source   // the connection that is charged, or whose account is checked
	charged  int       // bytes that from is charged with for this message
	assembly *assembly // of a message in fragments, until it is complete

	list             *amList
	prev, next       *AMMessage
	links[AMMessage] // list of the queued messages of one source
}

// amMessageState is a set of flags about a message.
type amMessageState uint16

const (
	amLive     amMessageState = 1 << iota // the application may use it
	amKept                                // it stays valid after the handler returns
	amReceived                            // Recv was called
	amOffered                             // the data is at the sender
	amReplies                             // the sender wants replies, on ep
	amHolds                               // it is counted in held of its endpoint
	amWhole                               // all fragments have arrived
	amOwned                               // own has copied header, key or data into memory of the message
	amAside                               // it is in an aside because its sender has too many unread replies
	amGivenUp                             // it is dropped when the fetch of its data ends
)

// amMessageSize is the charge for a message object, in bytes.
const amMessageSize = 320

// amList is a FIFO of messages with removal from the middle.
type amList struct{ head, tail *AMMessage }

func (l *amList) push(m *AMMessage) {
	m.list, m.prev, m.next = l, l.tail, nil
	if l.tail == nil {
		l.head = m
	} else {
		l.tail.next = m
	}
	l.tail = m
}

func (l *amList) pushFront(m *AMMessage) {
	m.list, m.prev, m.next = l, nil, l.head
	if l.head == nil {
		l.tail = m
	} else {
		l.head.prev = m
	}
	l.head = m
}

func (l *amList) remove(m *AMMessage) {
	if m.prev == nil {
		l.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		l.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.list, m.prev, m.next = nil, nil, nil
}

// newAM takes a message object from the worker's free list, or makes one.
func (as *amState) newAM() *AMMessage {
	m := as.free
	if m == nil {
		return &AMMessage{w: as.w}
	}
	as.free, m.next = m.next, nil
	as.idle--
	return m
}

// maxIdleAMs bounds the idle message objects of a worker.
const maxIdleAMs = 4096

// restAM takes back a message object that refers to nothing. The object is not reused until 16
// more have come back, so that a use after release is detected.
func (as *amState) restAM(m *AMMessage) {
	if !recycleRequests {
		return
	}
	at := &as.resting[as.rested%quarantine]
	as.rested++
	old := *at
	*at = m
	if old != nil && as.idle < maxIdleAMs {
		as.idle++
		old.next = as.free
		as.free = old
	}
}

// drop ends the life of a message. The memory that the message holds goes back to the transport
// or the pool, and the charge is taken off its source.
func (m *AMMessage) drop() {
	w := m.w
	if m.list != nil {
		m.list.remove(m)
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
	m.endTurn()
	w.am.restAM(m)
}

// charge charges the message's source with n bytes more.
func (m *AMMessage) charge(n int) {
	m.charged += n
	m.from.take(n)
}

// discharge takes the message's bytes off the charge of its source.
func (m *AMMessage) discharge() {
	if m.charged > 0 {
		m.from.give(m.charged)
		m.charged = 0
	}
}

// hold keeps the endpoint that leads to the sender from being evicted (wireupFamily.evict),
// because the application may be about to reply on it.
func (m *AMMessage) hold() {
	if m.ep != nil {
		m.ep.held++
		m.state |= amHolds
	}
}

func (m *AMMessage) unhold() {
	if m.state&amHolds != 0 {
		m.state &^= amHolds
		m.ep.held--
		m.ep.w.ends.lookQuiet(m.ep)
	}
}

// own copies what the message refers to into memory of the message, unless the message has pooled
// memory or a descriptor. The data comes first, at a multiple of the alignment, then the header
// and the key.
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

// alignedBuffer returns pooled memory buf, and b, n bytes of buf that start at a multiple of the
// alignment (WorkerParams.AMAlignment).
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
	return int(-memoryAddress(b) & uint64(w.params.AMAlignment-1))
}

// mustLive panics if the application no longer holds the message.
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
	m.endTurn()
	if m.state&amKept == 0 && m.handled {
		m.own()
		m.state |= amKept
	}
}

// endTurn ends the claim of a loop over AMQueue.All on the message: the loop does not release it.
func (m *AMMessage) endTurn() {
	if m.turn != nil {
		*m.turn = false
		m.turn = nil
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

// refuse ends an offer whose data was neither received nor asked for: the sender's request ends
// with status. Other messages are left alone.
func (m *AMMessage) refuse(status ucs.Status) {
	if m.state&(amOffered|amReceived) != amOffered {
		return
	}
	w := m.w
	if ep := w.endpoints.Get(uint64(m.rndv.EpID)); ep != nil && ep.err == nil {
		was := w.accounts.offerSource
		w.accounts.offerSource = m.from
		ep.w.rndv.sendATS(ep, m.rndv.ReqID, m.rndv.Size, status)
		w.accounts.offerSource = was
	}
}

var errNoAM = fmt.Errorf("ucp: the active message was received or released before: %w", ucs.ErrInvalidParam)

// Active messages that the application keeps stay charged to the peers that have sent them until
// they are released. Tagged messages that the application has taken are not charged, because the
// application has asked for them. A handler that never releases a message must not let peers fill
// the memory.
//
// If kept messages exceed the budget of the process, the connection that sends more is dropped.
// Shared memory does not tell which peer sends: there, messages for handlers are dropped until
// something is released.

// chargeKept charges a message that now belongs to the application, unless it is charged already.
// Over the limit the message's connection is dropped; a message without a connection makes the
// worker drop later ones (amState.over).
func (m *AMMessage) chargeKept() {
	if m.charged > 0 {
		return
	}
	w, n := m.w, amMessageSize+cap(m.buf)
	if m.desc != nil {
		n += keeps(m.data, m.desc)
	}
	err := w.accounts.charge(m.from, n)
	m.charge(n)
	switch {
	case err == nil:
	case m.from.uct != nil:
		m.from.uct.Drop(err)
	default:
		w.am.over = true
	}
}

// overfull reports whether a message that came without a connection cannot be handled, because
// the application keeps too many messages. An offer is then refused with ucs.ErrNoMemory.
func (m *AMMessage) overfull() bool {
	w := m.w
	if m.from.uct != nil {
		return false
	}
	if w.accounts.unnamed.charged.reserve(0, w.accounts.maxHeld) {
		w.am.over = false
		return false
	}
	if w.refused(m.from, ledger.Memory) {
		w.ctx.log.Warn("active message dropped: the program keeps too many", zap.String("worker", w.name), zap.Int("bytes", w.accounts.held()))
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
		given := (*Buffer)(nil)
		if p != nil {
			given, r.onRecv = &p.Buffer, p.OnAMRecv
		}
		if err = r.data.initRecv(buf, given); err != nil {
			w.pool.dropRequest(r)
		}
	}
	if err != nil {
		m.refuse(ucs.OK)
		m.taken()
		return nil, err
	}
	r.info = TagRecvInfo{Length: m.length}
	if m.state&amOffered != 0 {
		was := w.accounts.offerSource
		w.accounts.offerSource = m.from
		w.rndv.fetch(r, &m.rndv, m.key)
		w.accounts.offerSource = was
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

// taken ends the life of a message whose data was received or asked for, in a handler only when
// the handler returns.
func (m *AMMessage) taken() {
	if m.handled {
		m.state |= amReceived
		m.state &^= amKept
	} else {
		m.drop()
	}
}

// takeData ends a receive with data that has already arrived.
func (as *amState) takeData(r *Request, data []byte) {
	if len(data) > r.data.length {
		r.finish(ucs.ErrMessageTruncated)
		return
	}
	r.finish(r.data.unpackAt(data, 0))
}
