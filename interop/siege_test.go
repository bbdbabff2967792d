//go:build linux

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
)

// TestSiege attacks a server in every way, one by one and all at once, while a good client at
// another address checks each byte. The client must be unaffected, and after the attacks the server
// holds no more than before.
//
// SIEGE=10m is the long form: all attacks run for that time, and the state of the server is logged.
func TestSiege(t *testing.T) {
	here, there, err := newLinkedPlaces()
	if err != nil {
		needtest.Right(t, "two network namespaces: "+err.Error())
	}
	defer here.close()
	defer there.close()
	for k := range siegeAddresses {
		if err := there.ip("addr add " + siegeAddress(k) + "/24 dev " + there.eth); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("SIEGE"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		besiege(t, here, there, attacks, d)
		return
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { besiege(t, here, there, []attack{a}, 0) })
	}
	t.Run("all at once", func(t *testing.T) { besiege(t, here, there, attacks, 0) })
}

// siegeAddresses is the number of addresses of all attackers.
const siegeAddresses = 4

func siegeAddress(k int) string { return fmt.Sprintf("198.18.0.%d", 100+k%siegeAddresses) }

// besiege starts a server and a client and runs attacks, for the duration if that is not 0.
func besiege(t *testing.T, here, there *place, list []attack, duration time.Duration) {
	serverPort, err := here.freePort()
	if err != nil {
		t.Fatal(err)
	}
	clientPort, err := there.freePort()
	if err != nil {
		t.Fatal(err)
	}
	server := startActor(t, here, "server", siegeOrders{}, "UCX_TLS=tcp", "UCX_NET_DEVICES="+here.eth, "UCX_TCP_PORT_RANGE="+serverPort,
		fmt.Sprintf("UCX_MAX_UNEXP_BYTES=%d", siegeKept))
	var ready siegeReady
	server.hear(t, &ready)
	client := startActor(t, there, "client", siegeOrders{Server: ready, Number: 1, For: duration},
		"UCX_TLS=tcp", "UCX_NET_DEVICES="+there.eth, "UCX_TCP_PORT_RANGE="+clientPort)
	var me siegeMe
	client.hear(t, &me)
	before := server.stats(t)

	attr, err := tcpAttr(ready.Address)
	if err != nil {
		t.Fatal(err)
	}
	target := siegeTarget{
		TCP:  attr,
		Addr: firstHost + ":" + serverPort, UUID: ready.UUID, Memory: ready.Memory,
		Friend: me.UUID, Claim: netip.MustParseAddrPort(secondHost + ":" + clientPort),
	}
	var bands []*actor
	for k, a := range list {
		amount := a.amount
		if duration > 0 {
			amount = -1
		}
		bands = append(bands, startActor(t, there, "attacker", siegeOrders{Target: target, Attack: a.name,
			From: siegeAddress(k), Amount: amount, For: max(duration, time.Minute)}))
	}
	worst := before
	look := func() {
		s := server.stats(t)
		worst.RSS, worst.Heap, worst.Files = max(worst.RSS, s.RSS), max(worst.Heap, s.Heap), max(worst.Files, s.Files)
		if duration > 0 {
			t.Logf("%d MiB, heap %d MiB, %d descriptors, %+v", s.RSS>>20, s.Heap>>20, s.Files, s.Stats)
		}
	}
	for end := time.Now().Add(duration); time.Now().Before(end); look() {
		time.Sleep(min(10*time.Second, time.Until(end))) // between two samples in a long run
	}
	for k, band := range bands {
		if err := band.wait(duration + 3*time.Minute); err != nil {
			t.Errorf("%s: %v", list[k].name, err)
		}
	}
	look()
	var report siegeReport
	if err := client.tell(); err != nil {
		<-client.ended
		t.Fatalf("the good client has failed: %s", client.output)
	}
	client.hear(t, &report)
	if err := client.wait(exitLimit); err != nil {
		t.Error(err)
	}
	after := server.stats(t)
	for end := time.Now().Add(exitLimit); !siegeOver(before, after) && time.Now().Before(end); after = server.stats(t) {
		time.Sleep(10 * time.Millisecond) // ends of connections are detected with delay
	}
	t.Logf("good client: %+v; server: %v, at worst %v, %v afterwards", report, before, worst, after)
	if !siegeOver(before, after) {
		t.Errorf("the server holds more than before: %+v", after.Stats)
	}
	server.in.Close()
	if err := server.wait(exitLimit); err != nil {
		t.Error(err)
	}
}

// siegeKept bounds the memory for messages that are never received. They stay when their senders
// have disconnected.
const siegeKept = 64 << 20

// siegeOver reports whether a server uses as little as before. Some of the heap stays reserved.
func siegeOver(before, after siegeStats) bool {
	return after.Files <= before.Files && after.Goroutines <= before.Goroutines && after.Heap < before.Heap+2*siegeKept
}

// String describes the resource use of a server.
func (s siegeStats) String() string {
	return fmt.Sprintf("%d MiB, heap %d MiB, %d descriptors, %d goroutines", s.RSS>>20, s.Heap>>20, s.Files, s.Goroutines)
}

// actor is a process of the siege.
type actor struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// startActor starts this program in a role of the siege.
func startActor(t *testing.T, where *place, role string, o siegeOrders, env ...string) *actor {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(cleanEnv(), siegeRole+"="+role, siegeOrderVar+"="+string(b)), env...)
	a := &actor{}
	if a.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out = bufio.NewReader(out)
	if a.process, err = where.start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	return a
}

// tell asks the actor for a line.
func (a *actor) tell() error {
	_, err := fmt.Fprintln(a.in)
	return err
}

// hear reads a line.
func (a *actor) hear(t *testing.T, v any) {
	t.Helper()
	line, err := a.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, v)
	}
	if err != nil {
		a.kill()
		t.Fatalf("%v\n%s", err, a.output)
	}
}

// stats asks a server for its resource use.
func (a *actor) stats(t *testing.T) (s siegeStats) {
	t.Helper()
	if err := a.tell(); err != nil {
		t.Fatalf("%v\n%s", err, a.output)
	}
	a.hear(t, &s)
	return s
}

// siegeAttack is an attacker. It continues whatever the server does.
func siegeAttack() error {
	o, err := orders()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	defer cancel()
	from := netip.MustParseAddr(o.From)
	for _, a := range attacks {
		if a.name != o.Attack {
			continue
		}
		for {
			err := a.run(ctx, &o.Target, from, o.Amount)
			if err != nil && !refused(err) {
				return err
			}
			if o.Amount >= 0 || ctx.Err() != nil {
				return nil
			}
			if err != nil { // refused: pause before the next try
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}
	return fmt.Errorf("no attack %q", o.Attack)
}
