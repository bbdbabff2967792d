//go:build linux

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// clientID is the client id of the workers in these tests.
const clientID = "77"

// dialing is a pair, one of which listens and the other connects to it.
type dialing struct {
	*pair
	server, client *peer
	mode           string
	host           netip.Addr     // address to listen at
	addr           netip.AddrPort // where the server listens
}

// startDialing starts both peers and makes one listen.
func startDialing(where *place, ours, theirs program, weServe bool, s setting, over route) (*dialing, error) {
	s.both = append(slices.Clone(s.both), "PEER_CLIENT_ID="+clientID)
	p, err := startApart(where, where.opposite(), ours, theirs, s, over, over)
	if err != nil {
		return nil, err
	}
	d := &dialing{pair: p, server: p.theirs, client: p.ours, mode: s.errorMode(), host: over.host(weServe)}
	if weServe {
		d.server, d.client = p.ours, p.theirs
	}
	if err := d.listen(); err != nil {
		return nil, errors.Join(err, p.abort())
	}
	return d, nil
}

func (d *dialing) listen() error {
	values, err := d.server.command("listen", netip.AddrPortFrom(d.host, 0))
	if err != nil {
		return err
	}
	if d.addr, err = netip.ParseAddrPort(values[0]); err == nil && (d.addr.Port() == 0 || d.addr.Addr() != d.host) {
		err = fmt.Errorf("%s: listens at %v", d.server.name, d.addr)
	}
	return err
}

// dial makes the client start connecting.
func (d *dialing) dial(ep int, how string) error { return d.client.do("dial", ep, d.mode, d.addr, how) }

// called waits for a client, which the server then has in hand, and returns its address.
func (d *dialing) called(id uint64) (from string, err error) {
	values, err := d.server.command("client", operationLimit.Milliseconds())
	if err != nil {
		return "", err
	}
	if want := fmt.Sprintf("%#x", id); len(values) != 2 || values[1] != want {
		return "", fmt.Errorf("%s: a client is %q, want the id %s", d.server.name, values, want)
	}
	return values[0], nil
}

// accept makes the server accept the client in hand.
func (d *dialing) accept(ep int) error { return d.server.do("accept", ep, d.mode) }

// connect makes the whole connection, for the endpoint that operations use.
func (d *dialing) connect() error { return d.connectAs(ep) }

// connectAs is connect for one of several endpoints.
func (d *dialing) connectAs(ep int) error {
	if err := d.dial(ep, "plain"); err != nil {
		return err
	}
	if _, err := d.called(0); err != nil {
		return err
	}
	return d.accept(ep)
}

// talk runs some operations in both directions.
func (d *dialing) talk(sizes ...int) error {
	for _, size := range sizes {
		for _, op := range []struct {
			name string
			run  operationFunc
		}{
			{"tag", expected("contig", "contig", "sync")},
			{"am", activeAnswer},
			{"stream", streamWhole("contig", "contig")},
			{"put", on(own, putting)},
			{"get", on(own, getting)},
		} {
			for _, from := range []*peer{d.client, d.server} {
				to := d.client
				if from == to {
					to = d.server
				}
				if err := op.run(from, to, &d.msgs, size); err != nil {
					return fmt.Errorf("%s of %d bytes: %w", op.name, size, err)
				}
			}
		}
	}
	return nil
}

// sockets checks the addresses that both sides report.
func (d *dialing) sockets(from string) error {
	client, err := d.client.command("sockets", ep)
	if err != nil {
		return err
	}
	server, err := d.server.command("sockets", ep)
	if err != nil {
		return err
	}
	at := d.addr.String()
	if want := []string{from, at}; !slices.Equal(client, want) || !slices.Equal(server, []string{at, from}) {
		return fmt.Errorf("%s connects between %q, %s between %q, want %q from the client", d.client.name, client, d.server.name, server, want)
	}
	return nil
}

// part makes one side close and then the other, and ends both processes.
func (d *dialing) part(first, second *peer) error {
	for i, side := range []*peer{first, second} {
		n := side.request()
		if err := side.do("close", n, ep, "flush"); err != nil {
			return err
		}
		got, err := side.wait(n, 0)
		if err != nil {
			return err
		}
		// In mode none a second close by C may report that it was late, even to C.
		if got.status != ucs.OK && (i == 0 || d.mode == "none" && !side.isC()) {
			return side.statusError("close", got.status)
		}
		if i == 0 && d.mode == "peer" {
			if err := second.lost(ep); err != nil {
				return err
			}
		}
	}
	return errors.Join(d.server.do("unlisten"), first.exit(), second.exit())
}

// Routes that include the network, which makes the connection for all of them.
var dialingRoutes = []route{
	{name: "lo", tls: "tcp", both: true, devices: "lo"},
	{name: "posix", tls: "tcp,posix", both: true, devices: "lo"},
	{name: "sysv", tls: "tcp,sysv", both: true, devices: "lo"},
	{name: "cma", tls: "tcp,posix,cma", both: true, devices: "lo"},
	allTransports,
}

// dials reports whether a release can connect to itself, or to Go, over a route and in a mode. If
// the connection could use shared memory, 1.13 fails as a client, and in mode none also as a
// server, even with itself.
func (p program) dials(mode string, weServe bool, over route) bool {
	if majorMinor(p.name) != "1.13" || over.name == dialingRoutes[0].name {
		return true
	}
	return mode == "peer" && (!weServe || over.name == allTransports.name)
}

// eachDialing runs a test with every peer, in both roles.
func eachDialing(t *testing.T, routes []route, run func(t *testing.T, where *place, ours, theirs program, weServe bool, over route)) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	if testing.Short() {
		routes = routes[:1]
	}
	for _, theirs := range append([]program{ours}, c...) {
		for _, over := range routes {
			for name, weServe := range map[string]bool{"we serve": true, "we connect": false} {
				t.Run(theirs.name+"/"+over.name+"/"+name, func(t *testing.T) { run(t, where, ours, theirs, weServe, over) })
			}
		}
	}
}

// eachInPeerMode is eachDialing in error mode peer, over the first route and over all transports.
func eachInPeerMode(t *testing.T, run func(d *dialing) error) {
	eachDialing(t, []route{dialingRoutes[0], allTransports}, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if !theirs.dials("peer", weServe, over) {
			return
		}
		d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
		if err != nil {
			t.Fatal(err)
		}
		defer d.report(t)
		if err := run(d); err != nil {
			t.Fatal(err)
		}
	})
}

// TestListener connects by socket address: the server learns the client's id, accepts it on a
// worker of its choice, all kinds of operations work, both sides know the addresses, and either
// closes first.
func TestListener(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	eachDialing(t, dialingRoutes, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		for _, mode := range []string{"none", "peer"} {
			if !theirs.dials(mode, weServe, over) {
				continue
			}
			for _, other := range []bool{false, true} {
				name := mode + "/listener's worker"
				if other {
					name = mode + "/other worker"
				}
				t.Run(name, func(t *testing.T) {
					d, err := startDialing(where, ours, theirs, weServe, setting{mode: mode}, over)
					if err != nil {
						t.Fatal(err)
					}
					defer d.report(t)
					if err := d.whole(other, 8, 16384, 1<<20); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	})
}

// whole runs a connection from beginning to end, with messages of these sizes.
func (d *dialing) whole(otherWorker bool, sizes ...int) error {
	if err := d.dial(ep, "id"); err != nil {
		return err
	}
	from, err := d.called(77)
	if err != nil {
		return err
	}
	if otherWorker {
		if err := d.server.do("use", 1); err != nil {
			return err
		}
	}
	if err := d.accept(ep); err != nil {
		return err
	}
	if err := d.talk(sizes...); err != nil {
		return err
	}
	if err := d.sockets(from); err != nil {
		return err
	}
	if otherWorker { // the client closes first, otherwise the server
		return d.part(d.client, d.server)
	}
	return d.part(d.server, d.client)
}

// TestRejected: a rejected client gets the status, and may connect again.
func TestRejected(t *testing.T) {
	eachInPeerMode(t, func(d *dialing) error { return d.rejected() })
}

func (d *dialing) rejected() error {
	const refused = 9
	if err := d.dial(refused, "plain"); err != nil {
		return err
	}
	if _, err := d.called(0); err != nil {
		return err
	}
	if err := d.server.do("reject"); err != nil {
		return err
	}
	status, err := d.client.failure(refused)
	if err != nil {
		return err
	}
	if status != ucs.ErrRejected {
		return fmt.Errorf("%s: rejected, and told %v", d.client.name, status)
	}
	n := d.client.request()
	if err := d.client.do("close", n, refused, "force"); err != nil {
		return err
	}
	if _, err := d.client.wait(n, 0); err != nil { // any status will do
		return err
	}
	if err := d.connect(); err != nil {
		return err
	}
	if err := d.talk(8); err != nil {
		return err
	}
	return d.part(d.client, d.server)
}

// TestManyClients connects a hundred clients at once.
func TestManyClients(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	eachInPeerMode(t, func(d *dialing) error { return d.many(100) })
}

func (d *dialing) many(count int) error {
	for i := range count {
		if err := d.dial(i, "plain"); err != nil {
			return err
		}
	}
	for i := range count {
		if _, err := d.called(0); err != nil {
			return err
		}
		if err := d.accept(i); err != nil {
			return err
		}
	}
	for _, from := range []*peer{d.client, d.server} {
		to := d.client
		if from == to {
			to = d.server
		}
		sends, receives, sent := make([]int, count), make([]int, count), make([]message, count)
		var err error
		for i := range count {
			sent[i] = d.msgs.next(1000)
			if receives[i], err = to.recv(sent[i].tag, fullMask, sent[i].size, "contig"); err != nil {
				return err
			}
			if sends[i], err = from.send(i, sent[i], "contig", "sync"); err != nil {
				return err
			}
		}
		for i := range count {
			if err := both(from, sends[i], to, receives[i], sent[i]); err != nil {
				return fmt.Errorf("connection %d: %w", i, err)
			}
		}
	}
	for i := range count {
		n := d.client.request()
		if err := d.client.do("close", n, i, "flush"); err != nil {
			return err
		}
		if err := d.client.finish(n); err != nil {
			return err
		}
	}
	for i := range count {
		if err := d.server.lost(i); err != nil {
			return err
		}
		n := d.server.request()
		if err := d.server.do("close", n, i, "force"); err != nil {
			return err
		}
		if _, err := d.server.wait(n, 0); err != nil { // any status will do
			return err
		}
	}
	return errors.Join(d.server.do("unlisten"), d.client.exit(), d.server.exit())
}

// TestReleasesApart: each release of C connects to Go and Go to it, as in TestListener, even where
// the releases refuse each other with their defaults.
func TestReleasesApart(t *testing.T) {
	where := newPlace()
	defer where.close()
	list := buildC(t)
	for _, server := range list {
		for _, client := range list {
			if server.shortRings() == client.shortRings() {
				continue
			}
			t.Run(server.name+" serves "+client.name, func(t *testing.T) {
				d, err := startDialing(where, server, client, true, setting{mode: "peer"}, dialingRoutes[0])
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				if err := d.dial(ep, "plain"); err != nil {
					t.Fatal(err)
				}
				if _, err := d.called(0); err != nil {
					t.Fatal(err)
				}
				if err := d.accept(ep); err == nil {
					t.Errorf("%s takes a client of %s", server.name, client.name)
				}
				if status, err := d.client.failure(ep); err != nil || status != ucs.ErrRejected {
					t.Errorf("the client is told %v, %v", status, err)
				}
			})
		}
	}
}
