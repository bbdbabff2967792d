//go:build linux

package interop

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/proto"
)

// siegeTarget is what an attacker knows, all of which is public.
type siegeTarget struct {
	Addr   string          // of the server's listener
	UUID   uint64          // of the server's worker
	Friend uint64          // of a good client's worker
	Claim  netip.AddrPort  // that client's listener
	Memory uint64          // address of registered memory
	TCP    proto.IfaceAttr // as workers publish it
}

// attack is a way to harm the server. It runs until the context ends; refusals by the server are no
// failures. amount is how much of it a short test does.
type attack struct {
	name   string
	amount int
	run    func(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error
}

var attacks = []attack{
	{"answers are not read", 30_000, unreadAnswers},
	{"gets are not read", 20_000, unreadGets},
	{"requests for endpoints", 1500, wireupFlood},
	{"connections that say who they are", 1500, silentConns},
	{"connections that say nothing", 1500, halfOpenConns},
	{"frames that do not end", 500, slowFrames},
	{"messages nobody receives", 20_000, hoard},
	{"small hoarders", 300, smallHoarders},
	{"tags of one bucket", 20_000, sameBucket},
	{"coming and going", 2000, churn},
	{"claims of another's listener", 200, falseClaims},
	{"another's name", 200, falseNames},
	{"puts into the dark", 2000, blindPuts},
	{"garbage", 500, garbage},
}

// again reports whether an attack should continue.
func again(ctx context.Context, k, amount int) bool {
	return ctx.Err() == nil && (amount < 0 || k < amount)
}

// acceptedStranger returns a connection with an endpoint at the server.
func acceptedStranger(t *siegeTarget, from netip.Addr) (*stranger, error) {
	claim := freshClaim(from)
	s, err := knock(t.Addr, from, claim, 0)
	if err != nil {
		return nil, err
	}
	if err := s.wireup(rand.Uint64(), wireAddress(0, claim, t.TCP)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// batches writes what make returns, many at a time, until the server closes the connection.
func (s *stranger) batches(ctx context.Context, amount int, make func(k int) []byte) error {
	var b []byte
	for k := 0; again(ctx, k, amount); k++ {
		b = append(b, make(k)...)
		if len(b) < 32<<10 && k != amount-1 {
			continue
		}
		s.SetWriteDeadline(time.Now().Add(2 * time.Second)) // the server may have stopped reading
		if _, err := s.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	return nil
}

func unreadAnswers(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	s, err := acceptedStranger(t, from)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.batches(ctx, amount, func(k int) []byte {
		h := proto.EagerSyncOnly{Tag: siegeDrop, EpID: s.peer, ReqID: proto.RequestID(2*k + 1)}
		return tcpFrame(byte(proto.IDEagerSyncOnly), h.Append(nil))
	})
}

func unreadGets(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	s, err := acceptedStranger(t, from)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.batches(ctx, amount, func(k int) []byte {
		h := proto.GetReq{Address: t.Memory, Length: siegeMemory, EpID: s.peer, ReqID: proto.RequestID(2*k + 1)}
		return tcpFrame(byte(proto.IDGetReq), h.Append(nil))
	})
}

func wireupFlood(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	s, err := knock(t.Addr, from, freshClaim(from), 0)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.batches(ctx, amount, func(k int) []byte {
		m := proto.Wireup{Type: proto.WireupRequest, SrcEp: proto.EndpointID(2*k + 1), Address: wireAddress(rand.Uint64(), freshClaim(from), t.TCP)}
		b, _ := m.Append(nil)
		return tcpFrame(byte(proto.IDWireup), b)
	})
}

// crowd keeps as many connections open as possible, each made by open.
func crowd(ctx context.Context, amount int, open func() (*stranger, error)) error {
	var all []*stranger
	defer func() {
		for _, s := range all {
			s.Close()
		}
	}()
	const most = 3000
	for k := 0; again(ctx, k, amount); k++ {
		s, err := open()
		if err != nil {
			return err
		}
		if len(all) == most {
			all[0].Close()
			all = all[1:]
		}
		all = append(all, s)
	}
	return nil
}

func silentConns(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	return crowd(ctx, amount, func() (*stranger, error) { return knock(t.Addr, from, freshClaim(from), 0) })
}

func halfOpenConns(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	return crowd(ctx, amount, func() (*stranger, error) { return dial(t.Addr, from) })
}

func slowFrames(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	return crowd(ctx, amount, func() (*stranger, error) {
		s, err := knock(t.Addr, from, freshClaim(from), 0)
		if err != nil {
			return nil, err
		}
		_, err = s.Write(tcpFrame(byte(proto.IDEagerOnly), make([]byte, 60<<10))[:50<<10])
		return s, err
	})
}

func hoard(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	s, err := knock(t.Addr, from, freshClaim(from), 0)
	if err != nil {
		return err
	}
	defer s.Close()
	payload := make([]byte, 8<<10)
	return s.batches(ctx, amount, func(int) []byte {
		return tcpFrame(byte(proto.IDEagerOnly), proto.EagerOnly{Tag: siegeKeep}.Append(nil), payload)
	})
}

func smallHoarders(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	payload := make([]byte, 60<<10)
	return crowd(ctx, amount, func() (*stranger, error) {
		s, err := knock(t.Addr, from, freshClaim(from), 0)
		if err != nil {
			return nil, err
		}
		return s, s.batches(ctx, 50, func(int) []byte {
			return tcpFrame(byte(proto.IDEagerOnly), proto.EagerOnly{Tag: siegeKeep}.Append(nil), payload)
		})
	})
}

// sameBucket chooses tags that a fixed multiplicative hash would put into one bucket.
func sameBucket(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	s, err := knock(t.Addr, from, freshClaim(from), 0)
	if err != nil {
		return err
	}
	defer s.Close()
	const inverse = 0xF1DE83E19937733D // of 0x9E3779B97F4A7C15 modulo 2^64
	return s.batches(ctx, amount, func(k int) []byte {
		tag := uint64(k) * inverse // the product is k, whose upper bits are 0
		return tcpFrame(byte(proto.IDEagerOnly), proto.EagerOnly{Tag: proto.Tag(tag)}.Append(nil))
	})
}

func churn(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	for k := 0; again(ctx, k, amount); k++ {
		s, err := acceptedStranger(t, from)
		if refused(err) {
			continue
		}
		if err != nil {
			return err
		}
		s.say(proto.IDEagerOnly, proto.EagerOnly{Tag: siegeKeep}.Append(nil), make([]byte, 100))
		s.Close()
	}
	return nil
}

func falseClaims(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	return crowd(ctx, amount, func() (*stranger, error) {
		return knock(t.Addr, from, t.Claim, uint64(rand.IntN(4)))
	})
}

func falseNames(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	return crowd(ctx, amount, func() (*stranger, error) {
		claim := freshClaim(from)
		s, err := knock(t.Addr, from, claim, 0)
		if err != nil {
			return nil, err
		}
		for sn := range uint16(4) {
			m := proto.Wireup{Type: proto.WireupRequest, ConnSN: sn, SrcEp: 1, Address: wireAddress(t.Friend, claim, t.TCP)}
			b, _ := m.Append(nil)
			if err := s.say(proto.IDWireup, b); err != nil {
				return s, err
			}
		}
		return s, nil
	})
}

func blindPuts(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	for k := 0; again(ctx, k, amount); k++ {
		s, err := knock(t.Addr, from, freshClaim(from), 0)
		if err != nil {
			return err
		}
		addr := 0xc000000000 + uint64(rand.IntN(1<<28))&^7 // where Go's heap is
		s.Write(append(tcpPutHeader(addr, 64, 1), make([]byte, 64)...))
		s.Close()
	}
	return nil
}

func garbage(ctx context.Context, t *siegeTarget, from netip.Addr, amount int) error {
	for k := 0; again(ctx, k, amount); k++ {
		s, err := knock(t.Addr, from, freshClaim(from), 0)
		if err != nil {
			return err
		}
		b := make([]byte, 1+rand.IntN(2000))
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		if k%2 == 0 { // half of them look like a message
			b = tcpFrame(byte(rand.IntN(int(proto.IDLast))), b)
		}
		s.Write(b)
		s.Close()
	}
	return nil
}
