//go:build linux

package ucptest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// How messages look in a trace. Values that differ between runs are replaced by names: ids of
// workers, endpoints, requests and fragmented messages, and addresses of memory. An id belongs to
// the side that sends it first; the peer only returns it.

// names assigns names to values in the order in which they are seen.
type names struct {
	prefix string
	known  map[uint64]string
	count  map[string]int // by owner
}

func newNames(prefix string) *names {
	return &names{prefix: prefix, known: make(map[uint64]string), count: make(map[string]int)}
}

// of returns the name of v, which owner has sent.
func (n *names) of(v uint64, owner string) string {
	if v == 0 {
		return "none"
	}
	if n.known[v] == "" {
		n.count[owner]++
		n.known[v] = fmt.Sprintf("%s%d@%s", n.prefix, n.count[owner], owner)
	}
	return n.known[v]
}

// operations are the names of a transport's operations.
var operations = map[fault.Kind]string{
	fault.AMShort: "short", fault.AMBcopy: "bcopy", fault.AMZcopy: "zcopy",
	fault.PutShort: "put short", fault.PutBcopy: "put bcopy", fault.PutZcopy: "put zcopy",
	fault.GetBcopy: "get bcopy", fault.GetZcopy: "get zcopy",
	fault.AtomicPost: "atomic", fault.AtomicFetch: "fetching atomic",
}

var (
	errModes = map[proto.ErrMode]string{proto.ErrModeNone: "none", proto.ErrModePeer: "peer", proto.ErrModeFailover: "failover"}
	rndvOps  = map[proto.RndvOp]string{proto.RndvTag: "tag", proto.RndvAM: "am", proto.RndvRMA: "rma"}
)

// message describes an active message of a worker.
func (c *conversation) message(from string, id uct.AMID, b []byte) string {
	h, payload, err := parseMessage(proto.AMID(id), b)
	text := proto.AMID(id).String()
	switch {
	case err != nil:
		return fmt.Sprintf("%s %d bytes, %v", text, len(b), err)
	case h == nil:
		return fmt.Sprintf("%s %d bytes", text, len(b))
	}
	for _, f := range c.fields(from, reflect.ValueOf(h)) {
		text += " " + f
	}
	if rts, ok := h.(proto.RndvRTS); ok && rts.Op == proto.RndvAM {
		if key, header, err := rts.SplitRTS(payload); err == nil && len(header) > 0 {
			payload = key
			text += fmt.Sprintf(" header of %d", len(header))
		}
	}
	switch key := keyText(payload); {
	case proto.AMID(id) == proto.IDRndvRTS || proto.AMID(id) == proto.IDRndvRTR:
		text += " key=" + key
	case payload != nil:
		text += fmt.Sprintf(" + %d bytes", len(payload))
	}
	return text
}

// parseMessage returns the header and the payload of a message.
func parseMessage(id proto.AMID, b []byte) (h any, payload []byte, err error) {
	switch id {
	case proto.IDWireup:
		h, err = proto.ParseWireup(b)
	case proto.IDEagerOnly:
		h, payload, err = with(proto.ParseEagerOnly(b))
	case proto.IDEagerFirst:
		h, payload, err = with(proto.ParseEagerFirst(b))
	case proto.IDEagerMiddle:
		h, payload, err = with(proto.ParseEagerMiddle(b))
	case proto.IDEagerSyncOnly:
		h, payload, err = with(proto.ParseEagerSyncOnly(b))
	case proto.IDEagerSyncFirst:
		h, payload, err = with(proto.ParseEagerSyncFirst(b))
	case proto.IDEagerSyncAck:
		h, err = proto.ParseEagerSyncAck(b)
	case proto.IDOffloadSyncAck:
		h, err = proto.ParseOffloadSyncAck(b)
	case proto.IDRndvRTS:
		h, payload, err = with(proto.ParseRndvRTS(b))
	case proto.IDRndvRTR:
		h, payload, err = with(proto.ParseRndvRTR(b))
	case proto.IDRndvData:
		h, payload, err = with(proto.ParseRndvData(b))
	case proto.IDRndvATS, proto.IDRndvATP:
		h, err = proto.ParseRndvAck(b)
	case proto.IDPut:
		h, payload, err = with(proto.ParsePut(b))
	case proto.IDGetReq:
		h, err = proto.ParseGetReq(b)
	case proto.IDGetRep:
		h, payload, err = with(proto.ParseGetRep(b))
	case proto.IDAtomicReq:
		h, err = proto.ParseAtomicReq(b)
	case proto.IDAtomicRep:
		h, err = proto.ParseAtomicRep(b)
	case proto.IDCmpl:
		h, err = proto.ParseCmpl(b)
	case proto.IDEpClose:
		h, err = proto.ParseEpClose(b)
	case proto.IDStreamData:
		h, payload, err = with(proto.ParseStreamData(b))
	case proto.IDAMSingle:
		var m proto.AMHeader
		m, payload, _, err = proto.ParseAMSingle(b)
		h = m
	case proto.IDAMSingleReply:
		var m struct {
			proto.AMHeader
			proto.AMReplyFooter
		}
		m.AMHeader, m.AMReplyFooter, payload, _, err = proto.ParseAMSingleReply(b)
		h = m
	case proto.IDAMFirst:
		var m struct {
			proto.AMHeader
			proto.AMFirstFooter
		}
		m.AMHeader, m.AMFirstFooter, payload, _, err = proto.ParseAMFirst(b)
		h = m
	case proto.IDAMMiddle:
		h, payload, err = with(proto.ParseAMMiddle(b))
	}
	return h, payload, err
}

func with[T any](h T, payload []byte, err error) (any, []byte, error) {
	if payload == nil {
		payload = []byte{}
	}
	return h, payload, err
}

// keyText describes the packed key behind a header.
func keyText(b []byte) string {
	if len(b) == 0 {
		return "none"
	}
	k, n, err := proto.ParseRkey(b)
	if err != nil || n != len(b) {
		return fmt.Sprintf("%d bytes, %v", len(b), err)
	}
	var mds []string
	k.Keys(func(md uint8, key []byte) bool {
		mds = append(mds, fmt.Sprintf("md%d", md))
		return true
	})
	if mds == nil {
		return "empty"
	}
	return strings.Join(mds, ",")
}

// fields describes a header, field by field.
func (c *conversation) fields(from string, v reflect.Value) (list []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			list = append(list, c.fields(from, v.Field(i))...)
			continue
		}
		name := f.Name
		if h, ok := v.Interface().(proto.RndvRTS); ok && name == "Header" && h.Op == proto.RndvTag {
			name = "Tag"
		}
		if text := c.field(from, name, v.Field(i).Interface()); text != "" {
			list = append(list, strings.ToLower(name)+"="+text)
		}
	}
	return list
}

func (c *conversation) field(from, name string, v any) string {
	switch v := v.(type) {
	case proto.Tag:
		return fmt.Sprintf("%#x", uint64(v))
	case proto.EndpointID:
		return c.eps.of(uint64(v), from)
	case proto.RequestID:
		return c.reqs.of(uint64(v), from)
	case proto.MessageID:
		return c.msgs.of(uint64(v), from)
	case ucs.Status:
		return strings.ReplaceAll(statusText(v.Err()), " ", "-")
	case proto.WorkerAddress:
		n := 0
		v.Ifaces(func(int, *proto.AddressDevice, *proto.AddressIface) bool { n++; return true })
		text := fmt.Sprintf("%s(%d)", c.worker(v.UUID), n)
		if v.Token != nil {
			text += "+token"
		}
		return text
	case bool:
		if name == "HasSize" && v {
			return "" // visible from the payload
		}
	case proto.ErrMode:
		return errModes[v]
	case proto.RndvOp:
		return rndvOps[v]
	case uint16:
		if name == "ConnSN" && v == proto.ConnSNNone {
			return "none"
		}
	case uint64:
		switch name {
		case "Address":
			return c.place(v)
		case "RequestedLanes", "ProvidedLanes":
			if v == 0 {
				return "" // unused in messages of other types
			}
		}
		return fmt.Sprintf("%#x", v)
	}
	return fmt.Sprint(v)
}

// statusText describes the result of an operation.
func statusText(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprint(ucs.StatusOf(err))
}

// event adds an event of the tap to the trace.
func (c *conversation) event(e sim.Event) {
	from, to := c.side(e.From), c.side(e.To)
	by := protocolBehind(e.By)
	if e.Kind == sim.Sent && (!c.checks(from, e) || c.awaits(from)) {
		c.number++
		c.numbers[e.Number] = c.number
	}
	number, shown := c.numbers[e.Number]
	if e.Number != 0 && !shown {
		return
	}
	switch e.Kind {
	case sim.Sent:
		text := fmt.Sprintf("#%d %s→%s %s ", number, from, to, e.Device)
		switch e.Op {
		case fault.AMShort, fault.AMBcopy, fault.AMZcopy:
			if e.Flush {
				if e.Remote {
					text += "remote "
				}
				text += "flush"
				break
			}
			text += operations[e.Op] + " " + c.message(from, e.ID, e.Data)
		case fault.AtomicPost, fault.AtomicFetch:
			text += fmt.Sprintf("%s %s of %d bytes at %s, %#x", operations[e.Op], e.Atomic, e.Size, c.place(e.Addr), e.X)
			if e.Atomic == uct.AtomicCSwap {
				text += fmt.Sprintf(", %#x", e.Y)
			}
		default:
			text += fmt.Sprintf("%s %d bytes at %s", operations[e.Op], e.Size, c.place(e.Addr))
		}
		if e.Lost {
			text += ", lost"
		}
		if by != "" {
			text += " (" + by + ")"
		}
		c.say(text)
	case sim.Arrived:
		c.takes(to, number)
	case sim.Ended:
		c.lists("ended, "+statusText(e.Err)+": #", number)
	case sim.NoRoom:
		what := operations[e.Op]
		if e.Op <= fault.AMZcopy {
			what += " " + proto.AMID(e.ID).String()
		}
		c.say(fmt.Sprintf("%s→%s %s no room for %s", from, to, e.Device, what))
	case sim.Failed:
		c.say(fmt.Sprintf("%s→%s %s the connection is broken: %s", from, to, e.Device, statusText(e.Err)))
	case sim.Dropped:
		c.say(fmt.Sprintf("%s refuses #%d and drops the connection: %s", to, number, statusText(e.Err)))
	}
}
