package ledger

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/platform"
)

// Kind is a kind of resource.
type Kind uint8

// Kinds of resources.
const (
	Bytes     Kind = iota // memory of messages that the application has not received yet
	Owed                  // bytes of replies that the peer does not read
	Conns                 // connections
	Files                 // descriptors, including those of connections
	Endpoints             // endpoints that the peer has opened and that the application does not hold
	Known                 // endpoints to the peer that the application has created

	NumKinds
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [NumKinds]string{"bytes", "owed", "connections", "files", "endpoints", "known"}[k]
}

// Account holds the amounts of resources that one source makes the process hold. All methods may be
// called by any goroutine; on a nil Account they count for the process only.
type Account struct {
	source  Source
	open    int // number of uses that are not closed; guarded by the book
	amounts [NumKinds]atomic.Int64
	nets    [netLevels]*network // nil if the source is in no network
	refused [NumReasons]atomic.Uint64
}

// book is the accounts and totals of a process.
type book struct {
	sync.Mutex
	accounts map[Source]*Account
	nets     map[netip.Prefix]*network

	totals   [NumKinds]atomic.Int64
	refusals [NumReasons]refusals
}

var process platform.Local[book]

// Open returns the account of a source. Each Open needs one Close.
func Open(s Source) *Account {
	b := process.Get()
	b.Lock()
	defer b.Unlock()
	a := b.accounts[s]
	if a == nil {
		a = &Account{source: s}
		if b.accounts == nil {
			b.accounts = make(map[Source]*Account)
		}
		b.accounts[s] = a
		a.join()
	}
	a.open++
	return a
}

// AddUse adds a use to an account that the caller has open, and returns the account. The use needs
// its own Close.
func (a *Account) AddUse() *Account {
	b := process.Get()
	if a != nil {
		b.Lock()
		a.open++
		b.Unlock()
	}
	return a
}

// Close ends one use of the account. The last Close removes the account; the caller must have
// returned all charges before.
func (a *Account) Close() {
	b := process.Get()
	if a == nil {
		return
	}
	b.Lock()
	defer b.Unlock()
	if a.open--; a.open < 0 {
		panic("ledger: account closed twice")
	}
	if a.open == 0 {
		delete(b.accounts, a.source)
		a.leave()
		if len(b.accounts) == 0 {
			b.accounts = nil // deleting entries does not free a map's memory
		}
	}
}

// Source returns the source of the account.
func (a *Account) Source() Source {
	if a == nil {
		return Shared
	}
	return a.source
}

// Add charges n units; a negative n returns them.
func (a *Account) Add(k Kind, n int64) {
	if n == 0 {
		return
	}
	process.Get().totals[k].Add(n)
	if a == nil {
		return
	}
	a.amounts[k].Add(n)
	if k == Conns && a.nets[0] != nil {
		for _, net := range a.nets {
			net.conns.Add(n)
		}
	}
}

// Of returns the amount of resource k that is charged to the account.
func (a *Account) Of(k Kind) int64 {
	if a == nil {
		return 0
	}
	return a.amounts[k].Load()
}

// IsUnknown reports whether the application has no endpoint to the source. It is false for Shared
// sources, for which that is unknown.
func (a *Account) IsUnknown() bool { return a != nil && a.source != Shared && a.Of(Known) <= 0 }

// Total returns the amount of resource k that is charged to all accounts of the process.
func Total(k Kind) int64 { return process.Get().totals[k].Load() }

// Snapshot is the state of an account at one moment.
type Snapshot struct {
	Source  Source
	Open    int // number of uses that are not closed
	Amounts [NumKinds]int64
	Refused [NumReasons]uint64
}

// Snapshot reads the account.
func (a *Account) Snapshot() Snapshot {
	s := Snapshot{Source: a.Source()}
	if a == nil {
		return s
	}
	for k := range s.Amounts {
		s.Amounts[k] = a.amounts[k].Load()
	}
	for r := range s.Refused {
		s.Refused[r] = a.refused[r].Load()
	}
	return s
}

// Accounts returns snapshots of all open accounts, in no particular order.
func Accounts() []Snapshot {
	b := process.Get()
	b.Lock()
	defer b.Unlock()
	list := make([]Snapshot, 0, len(b.accounts))
	for _, a := range b.accounts {
		s := a.Snapshot()
		s.Open = a.open
		list = append(list, s)
	}
	return list
}

// OpenAccounts returns the number of open accounts.
func OpenAccounts() int {
	b := process.Get()
	b.Lock()
	defer b.Unlock()
	return len(b.accounts)
}

// Greediest returns the source with the largest amount of a resource, and an amount of 0 if no
// source has any. Strangers, to which the application has no endpoint, come first: a known source
// is returned only if no stranger has any. Among sources with the same amount it returns the first
// in the order of Source.compare. It reads each account.
func Greediest(k Kind) (s Source, amount int64, unknown bool) {
	b := process.Get()
	b.Lock()
	defer b.Unlock()
	for _, a := range b.accounts {
		n, isUnknown := a.Of(k), a.IsUnknown()
		if n <= 0 || unknown && !isUnknown {
			continue
		}
		if amount == 0 || isUnknown && !unknown || n > amount || n == amount && a.source.compare(s) < 0 {
			s, amount, unknown = a.source, n, isUnknown
		}
	}
	return s, amount, unknown
}
