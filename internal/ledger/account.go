package ledger

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// Kind is what is counted.
type Kind uint8

// Kinds.
const (
	Bytes     Kind = iota // memory kept for messages that nobody has received yet
	Owed                  // bytes of answers that the peer does not read
	Conns                 // connections
	Files                 // descriptors, those of connections included
	Endpoints             // endpoints that the peer has opened and the application does not have
	Known                 // endpoints toward the peer that the application has made

	NumKinds
)

// String names the kind.
func (k Kind) String() string {
	return [NumKinds]string{"bytes", "owed", "connections", "files", "endpoints", "known"}[k]
}

// Account is what one source makes the process hold. All methods may be called by
// any goroutine; those of nil count for the process alone.
type Account struct {
	source  Source
	open    int // under the lock of the book
	amounts [NumKinds]atomic.Int64
	nets    [netLevels]*network // nil: in none
	refused [NumReasons]atomic.Uint64
}

// book is all accounts of the process.
var book struct {
	sync.Mutex
	accounts map[Source]*Account
	nets     map[netip.Prefix]*network
}

var totals [NumKinds]atomic.Int64

// Open returns the account of a source. It must be closed as often as it is opened.
func Open(s Source) *Account {
	book.Lock()
	defer book.Unlock()
	a := book.accounts[s]
	if a == nil {
		a = &Account{source: s}
		if book.accounts == nil {
			book.accounts = make(map[Source]*Account)
		}
		book.accounts[s] = a
		a.join()
	}
	a.open++
	return a
}

// Again opens an account that the caller has open once more.
func (a *Account) Again() *Account {
	if a != nil {
		book.Lock()
		a.open++
		book.Unlock()
	}
	return a
}

// Close ends one use of the account. With the last it is forgotten; what was charged
// has been given back by then.
func (a *Account) Close() {
	if a == nil {
		return
	}
	book.Lock()
	defer book.Unlock()
	if a.open--; a.open < 0 {
		panic("ledger: account closed twice")
	}
	if a.open == 0 {
		delete(book.accounts, a.source)
		a.part()
		if len(book.accounts) == 0 {
			book.accounts = nil // a map does not shrink
		}
	}
}

// Source is who the account is of.
func (a *Account) Source() Source {
	if a == nil {
		return Shared
	}
	return a.source
}

// Add charges n of something; a negative n gives back.
func (a *Account) Add(k Kind, n int64) {
	if n == 0 {
		return
	}
	totals[k].Add(n)
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

// Of is what the account is charged with.
func (a *Account) Of(k Kind) int64 {
	if a == nil {
		return 0
	}
	return a.amounts[k].Load()
}

// Stranger reports whether the application has no endpoint toward the source. Of
// those whom nobody tells apart that cannot be said.
func (a *Account) Stranger() bool { return a != nil && a.source != Shared && a.Of(Known) <= 0 }

// Total is what all accounts of the process are charged with.
func Total(k Kind) int64 { return totals[k].Load() }

// Snapshot is an account at one moment.
type Snapshot struct {
	Source  Source
	Open    int // how often the account is open
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

// Accounts returns all accounts that are open, in no order.
func Accounts() []Snapshot {
	book.Lock()
	defer book.Unlock()
	list := make([]Snapshot, 0, len(book.accounts))
	for _, a := range book.accounts {
		s := a.Snapshot()
		s.Open = a.open
		list = append(list, s)
	}
	return list
}

// Number is how many accounts are open.
func Number() int {
	book.Lock()
	defer book.Unlock()
	return len(book.accounts)
}

// Greediest returns the source that holds most of something, without one if nobody
// holds any. Strangers, with whom the application has no endpoint, come before those
// that it knows: those are returned only if no stranger holds any. It looks at each
// account.
func Greediest(k Kind) (s Source, amount int64, stranger bool) {
	book.Lock()
	defer book.Unlock()
	for _, a := range book.accounts {
		n, strange := a.Of(k), a.Stranger()
		if n <= 0 || stranger && !strange {
			continue
		}
		if amount == 0 || strange && !stranger || n > amount {
			s, amount, stranger = a.source, n, strange
		}
	}
	return s, amount, stranger
}
