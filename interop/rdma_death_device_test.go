//go:build linux

package interop

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// A death is the killing of a peer over RDMA devices, where no kernel reports it: the operations in
// progress, whether the peer was stopped before, and the settings by which it is detected.
type death struct {
	way     string // operations in progress: a key of beforeDeath
	stopped bool   // the peer is stopped before it is killed
	asks    bool   // detected by the keepalive, else by a later send
	retries int    // of the device; with 7, soft-RoCE never gives up
	short   []string
}

func (d death) String() string {
	words := []string{d.way, "killed", fmt.Sprintf("keepalive off, %d retries", d.retries)}
	if d.stopped {
		words[1] = "stopped and killed"
	}
	if d.asks {
		words[2] = fmt.Sprintf("keepalive on, %d retries", d.retries)
	}
	return strings.Join(words, ", ")
}

// deaths lists all deaths, with the routes that the short form tests.
func deaths() (list []death) {
	for _, d := range []death{
		{retries: 6},
		{retries: 6, asks: true},
		{retries: 7, asks: true}, // the default
	} {
		for _, d.way = range []string{"idle", "put", "tag", "am"} {
			for _, d.stopped = range []bool{false, true} {
				d.short = nil
				switch {
				case d.retries == 7 && d.way == "put" && !d.stopped, d.retries == 6 && !d.asks && d.way == "tag" && d.stopped:
					d.short = []string{reliable}
				case d.retries == 6 && !d.asks && d.way == "am" && !d.stopped, d.retries == 7 && d.way == "idle" && !d.stopped:
					d.short = []string{datagram}
				}
				list = append(list, d)
			}
		}
	}
	return list
}

// asksEvery is UCX_KEEPALIVE_INTERVAL.
const asksEvery = 500 * time.Millisecond

// tries is the time between two retries of the device, given the silence after which datagrams take
// a peer for dead.
func tries(silence time.Duration) time.Duration { return silence / 12 }

func (d death) env(silence time.Duration) []string {
	ask := "inf"
	if d.asks {
		ask = fmt.Sprint(asksEvery)
	}
	return []string{
		"UCX_KEEPALIVE_INTERVAL=" + ask, fmt.Sprintf("UCX_RC_VERBS_RETRY_COUNT=%d", d.retries),
		fmt.Sprintf("UCX_RC_VERBS_TIMEOUT=%dms", tries(silence).Milliseconds()), fmt.Sprintf("UCX_UD_VERBS_TIMEOUT=%dms", silence.Milliseconds()),
	}
}

// bound is a generous limit for detecting a dead peer with these settings, as the machine may be
// busy. A device may take four times its configured timeout (IBA, local ACK timeout), and the
// keepalive checks three times.
func (d death) bound(over route, silence time.Duration) time.Duration {
	limit := silence
	if over.tls == reliable {
		limit = time.Duration(1+d.retries) * 4 * tries(silence)
	}
	if d.asks {
		limit += 3 * asksEvery
	}
	return 12 * limit
}

// beforeDeath starts the operations in progress, and returns their requests.
var beforeDeath = map[string]func(p *pair) ([]int, error){
	"idle": func(*pair) ([]int, error) { return nil, nil },
	"put": func(p *pair) ([]int, error) {
		n, err := p.toDie.put(0, p.msgs.next(dyingSize))
		return []int{n}, err
	},
	"tag": func(p *pair) (list []int, err error) {
		for _, mode := range []string{"sync", "async"} {
			for _, size := range []int{8, 30_000, dyingSize} {
				n, err := p.ours.send(ep, p.msgs.next(size), "contig", mode)
				if err != nil {
					return nil, err
				}
				list = append(list, n)
			}
		}
		return list, nil
	},
	"am": func(p *pair) (list []int, err error) {
		for _, flags := range []string{"plain", "eager,reply", "rndv"} {
			for _, size := range []int{8, 30_000, dyingSize} {
				n, err := p.ours.activeSend(ep, amID, 8, p.msgs.next(size), "contig", flags)
				if err != nil {
					return nil, err
				}
				list = append(list, n)
			}
		}
		return list, nil
	},
}

const dyingSize = 4 << 20

// TestRDMADeath: a killed peer is detected within the configured time, whatever operations are in
// progress: by the keepalive or, if that is off, by the device's retries or the silence of
// datagrams after the next send. Each operation ends, once. The long form also prints what C UCX
// does as the survivor.
func TestRDMADeath(t *testing.T) {
	onVeth(t)
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !ours.ours {
			return
		}
		silence := meetingTakes(t, where, ours, theirs)
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			// Retries are more frequent here than on busy networks.
			over.more = nil
			for _, d := range deaths() {
				if !rdmaLong && !slices.Contains(d.short, over.tls) {
					continue
				}
				t.Run(over.name+"/"+d.String(), func(t *testing.T) {
					took := d.survived(t, where, ours, theirs, over, silence, true)
					said := "ours after " + took
					if rdmaLong && !theirs.ours {
						said += ", " + theirs.name + " after " + d.survived(t, where, theirs, ours, over, silence, false)
					}
					t.Log(said)
				})
			}
		}
	})
}

// survived kills the second of two programs, and returns when the first has detected that. If must
// is true, it has to detect it, and its operations have to end.
func (d death) survived(t *testing.T, where *place, stays, dies program, over route, silence time.Duration, must bool) string {
	t.Helper()
	p, err := newPair(where, stays, dies, setting{mode: "peer", both: d.env(silence)}, over)
	if err != nil {
		t.Fatal(err)
	}
	defer p.report(t)
	p.meet(t)
	if err := p.theirs.handler(amID, "keep"); err != nil {
		t.Fatal(err)
	}
	if p.toDie, err = open(p.ours, p.theirs, 0, dyingSize, 0, own); err != nil {
		t.Fatal(err)
	}
	if d.stopped {
		signal(t, p.theirs, syscall.SIGSTOP)
	}
	requests, err := beforeDeath[d.way](p)
	if err != nil {
		t.Fatal(err)
	}
	before := retriesExceeded(t)
	p.theirs.process.kill()
	start := time.Now()
	if !d.asks { // only output on the device detects it
		n, err := p.ours.send(ep, p.msgs.next(8), "contig", "sync")
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, n)
	}
	limit := d.bound(over, silence)
	status := ucs.OK
	for status == ucs.OK {
		if time.Since(start) > limit {
			if must {
				t.Fatalf("not found within %v", limit)
			}
			return fmt.Sprintf("more than %v", limit.Round(time.Second))
		}
		values, err := p.ours.command("failure", ep)
		if err == nil {
			err = p.ours.do("progress", 5)
		}
		r, err2 := parseResult(values)
		if err != nil || err2 != nil {
			if must {
				t.Fatal(err, err2)
			}
			return fmt.Sprintf("%v: %v", time.Since(start).Round(10*time.Millisecond), err)
		}
		status = r.status
	}
	took := time.Since(start).Round(10 * time.Millisecond).String()
	if !must {
		return took
	}
	switch now := retriesExceeded(t); {
	case over.tls == reliable && d.retries < 7 && !d.asks && status == ucs.ErrEndpointTimeout && now == before:
		t.Error("the device has given nothing up")
	case status != ucs.ErrEndpointTimeout && status != ucs.ErrConnectionReset && status != ucs.ErrIO: // as answered by the dying device
		t.Errorf("the endpoint has failed with %v", status)
	}
	for _, n := range requests {
		if _, err := p.ours.wait(n, 0); err != nil { // operations already sent may succeed
			t.Fatal(err)
		}
	}
	if err := p.ours.do("release", p.toDie.number); err != nil {
		t.Error(err)
	}
	closeAndExit(t, p, "flush")
	return took
}
