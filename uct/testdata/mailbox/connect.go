package mailbox

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/ucs"
)

// addrLen is the length of an iface address: a random number of the process, and the number of
// the iface.
const addrLen = 16

// boxes are the open mailboxes of the process, by their addresses.
var boxes = struct {
	mu     sync.Mutex
	number uint64
	byAddr map[[addrLen]byte]*box
}{byAddr: make(map[[addrLen]byte]*box)}

var processID = func() (id [8]byte) { rand.Read(id[:]); return id }() // never fails

// publish gives a mailbox an address.
func publish(b *box) []byte {
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	boxes.number++
	addr := binary.LittleEndian.AppendUint64(processID[:], boxes.number)
	boxes.byAddr[[addrLen]byte(addr)] = b
	return addr
}

func unpublish(addr []byte) {
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	delete(boxes.byAddr, [addrLen]byte(addr))
}

// find returns the mailbox with an untrusted address.
func find(addr []byte) (*box, error) {
	if len(addr) != addrLen {
		return nil, fmt.Errorf("mailbox: iface address of %d bytes, not %d: %w", len(addr), addrLen, ucs.ErrUnreachable)
	}
	boxes.mu.Lock()
	defer boxes.mu.Unlock()
	b := boxes.byAddr[[addrLen]byte(addr)]
	if b == nil {
		return nil, fmt.Errorf("mailbox: no iface of this process has the address %x: %w", addr, ucs.ErrUnreachable)
	}
	return b, nil
}
