package ucp

import "github.com/ucx-go/ucx/internal/ledger"

// payer is an account of the process as one worker sees it: all connections to the
// worker that come from one address, or from one user of this machine. Messages are
// charged here, without atomic operations. The account is charged in advance, in
// steps: with high, which is at least held but for what a last message took more than
// was asked for. Whether there is room is decided when high has to grow.
type payer struct {
	w       *Worker
	account *ledger.Account
	sources *source // a list

	held      int // bytes of unexpected messages
	high, low int // what the account is charged with; below low some is given back
	opened    int // endpoints
	owed      int // bytes of answers
	owedHigh  int // of those the account is charged with
}

// mostSlack and leastSlack bound what a payer is charged with in advance.
const (
	mostSlack  = 1 << 20
	leastSlack = 64 << 10
)

// slack is what a payer that holds n bytes may be charged with in advance: little of
// what it holds, and little of what there is.
func (w *Worker) slack(n int) int {
	return min(max(n/8, leastSlack), w.maxHeld/256, mostSlack)
}

// payerOf returns the payer of an account, which the caller has to join.
func (w *Worker) payerOf(who ledger.Source) *payer {
	a := ledger.Open(who)
	if p := w.payers[a]; p != nil {
		a.Close() // p has it open
		return p
	}
	if w.payers == nil {
		w.payers = make(map[*ledger.Account]*payer)
	}
	p := &payer{w: w, account: a}
	w.payers[a] = p
	w.mostPayers = max(w.mostPayers, len(w.payers))
	return p
}

// join makes p pay for a source.
func (p *payer) join(s *source) {
	s.payer = p
	link(&p.sources, s, (*source).place)
}

// leave ends that. A payer for nobody is forgotten.
func (p *payer) leave(s *source) {
	unlink(&p.sources, s, (*source).place)
	if p.sources == nil {
		p.close()
	}
}

// close gives back everything.
func (p *payer) close() {
	w := p.w
	p.resize(0)
	p.account.Add(ledger.Owed, -int64(p.owedHigh))
	p.account.Add(ledger.Endpoints, -int64(p.opened))
	p.owedHigh, p.opened = 0, 0
	delete(w.payers, p.account)
	p.account.Close()
	if len(w.payers) <= 1 && w.mostPayers > shrinkFrom { // maps do not shrink
		w.mostPayers = 1
		old := w.payers
		w.payers = nil
		for a, q := range old {
			w.payers = map[*ledger.Account]*payer{a: q}
		}
	}
}

// closePayers is for the end of the worker.
func (w *Worker) closePayers() {
	for _, p := range w.payers {
		for s := p.sources; s != nil; s = s.next {
			s.left = true
		}
		p.close()
	}
}

// shrinkFrom is the number of entries from which a table is made anew when they are
// gone.
const shrinkFrom = 1024

// resize charges the account with high bytes.
func (p *payer) resize(high int) {
	p.account.Add(ledger.Bytes, int64(high-p.high))
	p.w.reserved += high - p.high
	p.high, p.low = high, high-4*p.w.slack(high)
}

// reserve charges the account for n bytes more, and some in advance, if the process
// may hold them.
func (p *payer) reserve(n, limit int) bool {
	need := p.held + n - p.high
	if need <= 0 {
		return true
	}
	free := int64(limit) - ledger.Total(ledger.Bytes)
	extra := p.w.slack(p.held + n)
	if int64(need+extra) > free {
		extra = 0
	}
	if int64(need) > free {
		return false
	}
	p.resize(p.high + need + extra)
	return true
}

// held is the memory of messages without a receive: our buffers, and message
// objects with the transports' memory that they keep.
func (w *Worker) held() (n int) {
	for _, p := range w.payers {
		n += p.held
	}
	return n
}

// trim gives back what is charged in advance to any payer of the worker.
func (w *Worker) trim() {
	if w.reserved <= w.held() {
		return
	}
	for _, p := range w.payers {
		if p.high > p.held {
			p.resize(p.held)
			p.low = 0
		}
	}
}

// amount is how much of a kind is held.
func (p *payer) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return p.opened
	}
	return p.held
}

func (s *source) amount(k ledger.Kind) int {
	if k == ledger.Endpoints {
		return s.opened
	}
	return s.held
}

// greediest returns the connection that holds most of a kind, nil if none that can
// give way holds any. One that was evicted can still hold parts of messages of others.
func (p *payer) greediest(k ledger.Kind) *source {
	var hog *source
	for s := p.sources; s != nil; s = s.next {
		if s != &s.w.unnamed && !s.evicted && s.amount(k) > 0 && (hog == nil || s.amount(k) > hog.amount(k)) {
			hog = s
		}
	}
	return hog
}
