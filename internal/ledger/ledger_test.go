package ledger

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// TestSourceOf checks which addresses share an account.
func TestSourceOf(t *testing.T) {
	for name, group := range map[string][]Source{
		"192.0.2.7":         {SourceOf(addr("192.0.2.7"), -1), SourceOf(addr("::ffff:192.0.2.7"), -1)},
		"192.0.2.8":         {SourceOf(addr("192.0.2.8"), -1)},
		"2001:db8:0:1::/64": {SourceOf(addr("2001:db8:0:1::1"), -1), SourceOf(addr("2001:db8:0:1:ffff::2"), -1)},
		"2001:db8:0:2::/64": {SourceOf(addr("2001:db8:0:2::1"), -1)},
		"fe80::%eth0/64":    {SourceOf(addr("fe80::1%eth0"), -1), SourceOf(addr("fe80::2%eth0"), -1)},
		"fe80::%eth1/64":    {SourceOf(addr("fe80::1%eth1"), -1)},
		"127.0.0.1":         {SourceOf(addr("127.0.0.1"), -1), SourceOf(addr("127.9.8.7"), -1), SourceOf(addr("::1"), -1)},
		"user 7":            {SourceOf(addr("127.0.0.1"), 7), SourceOf(addr("::1"), 7), SourceOf(addr("192.0.2.7"), 7)},
		"user 0":            {SourceOf(addr("127.0.0.1"), 0)},
		"shared memory":     {Shared, SourceOf(netip.Addr{}, -1)},
	} {
		for _, s := range group {
			if s != group[0] || s.String() != name {
				t.Errorf("%s: %v is %q", name, s, s.String())
			}
		}
	}
}

// TestAccounts: the sums are correct, and closed accounts leave nothing behind.
func TestAccounts(t *testing.T) {
	before := len(Accounts())
	s := SourceOf(addr("192.0.2.1"), -1)
	a, b := Open(s), Open(s)
	if a != b {
		t.Fatal("two accounts of one source")
	}
	c := a.AddUse()
	total := Total(Bytes)
	a.Add(Bytes, 100)
	b.Add(Bytes, -40)
	(*Account)(nil).Add(Bytes, 5)
	if a.Of(Bytes) != 60 || Total(Bytes) != total+65 {
		t.Errorf("%d bytes, %d in all", a.Of(Bytes), Total(Bytes)-total)
	}
	a.Refuse(Silence)
	found := false
	for _, n := range Accounts() {
		if n.Source == s {
			found = true
			if n.Open != 3 || n.Amounts != [NumKinds]int64{Bytes: 60} || n.Refused != [NumReasons]uint64{Silence: 1} {
				t.Errorf("the account is %+v", n)
			}
		}
	}
	if !found || OpenAccounts() != before+1 {
		t.Errorf("found %v, %d accounts", found, OpenAccounts()-before)
	}
	a.Add(Bytes, -60)
	(*Account)(nil).Add(Bytes, -5)
	a.Close()
	c.Close()
	if n := len(Accounts()); n != before+1 {
		t.Errorf("%d accounts", n)
	}
	b.Close()
	for i := range 100_000 {
		a := Open(SourceOf(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), -1))
		a.Refuse(Memory)
		a.Close()
	}
	if n := len(Accounts()); n != before {
		t.Errorf("%d accounts are left", n-before)
	}
	defer func() {
		if recover() == nil {
			t.Error("closing an account too often is not found out")
		}
	}()
	b.Close()
}

// TestGreediest: unknown sources come before known ones, and among them the one that holds most.
func TestGreediest(t *testing.T) {
	const k = Endpoints
	if _, n, _ := Greediest(k); n != 0 {
		t.Fatalf("somebody holds %d", n)
	}
	var accounts [4]*Account
	for i := range accounts {
		accounts[i] = Open(SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), -1))
		defer accounts[i].Close()
	}
	add := func(i int, k Kind, n int64) {
		accounts[i].Add(k, n)
		t.Cleanup(func() { accounts[i].Add(k, -n) })
	}
	check := func(who int, amount int64, stranger bool) {
		t.Helper()
		for range 50 { // accounts have no fixed order
			s, n, strange := Greediest(k)
			if s != accounts[who].Source() || n != amount || strange != stranger {
				t.Fatalf("%v with %d, stranger %v; want %v with %d, %v", s, n, strange, accounts[who].Source(), amount, stranger)
			}
		}
	}
	shared := Open(Shared)
	defer shared.Close()
	if shared.IsUnknown() || (*Account)(nil).IsUnknown() || !accounts[0].IsUnknown() {
		t.Error("those whom nobody tells apart are strangers, or others are not")
	}
	add(0, Known, 1)
	add(0, k, 1000)
	check(0, 1000, false)
	add(1, Known, 2)
	add(1, k, 2000)
	check(1, 2000, false)
	add(2, k, 1)
	check(2, 1, true)
	add(3, k, 2)
	check(3, 2, true)
	add(2, k, 1) // an equal amount: the first in order counts
	check(2, 2, true)
}

// TestRefuse: refusals are logged once a minute for each reason, whichever source they concern.
func TestRefuse(t *testing.T) {
	var clock atomic.Int64
	old := now
	now = clock.Load
	defer func() {
		now = old
		LogAgain()
	}()
	a := Open(Shared)
	defer a.Close()
	before := Refusals(Policy)
	lines := 0
	for range 10 { // every 10 s
		var wg sync.WaitGroup
		var n atomic.Int32
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				who := a
				if i%2 == 0 {
					who = nil
				}
				if who.Refuse(Policy) {
					n.Add(1)
				}
			}()
		}
		wg.Wait()
		lines += int(n.Load())
		clock.Add(int64(logInterval) / 6)
	}
	if lines != 2 {
		t.Errorf("%d lines in 90 seconds", lines)
	}
	if !a.Refuse(Claim) {
		t.Error("another reason is not logged")
	}
	if a.Refused(Policy) != 40 || Refusals(Policy)-before != 80 {
		t.Errorf("%d and %d refusals", a.Refused(Policy), Refusals(Policy)-before)
	}
}

// TestMulti: many goroutines use the same accounts at the same time.
func TestMulti(t *testing.T) {
	total := Total(Owed)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 1000 {
				a := Open(SourceOf(netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 16)}), -1))
				a.Add(Owed, int64(g+1))
				a.Refuse(Answers)
				if g == 0 && i%100 == 0 {
					Accounts()
					Greediest(Owed)
				}
				a.Add(Owed, -int64(g+1))
				a.Close()
			}
		}()
	}
	wg.Wait()
	if Total(Owed) != total {
		t.Errorf("%d are left", Total(Owed)-total)
	}
}

// TestNames: every kind and reason has a name.
func TestNames(t *testing.T) {
	for k := range NumKinds {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
	for r := range NumReasons {
		if r.String() == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}
