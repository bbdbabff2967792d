package kit_test

import (
	"fmt"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// An iface keeps its message handlers in a table, which its progress asks for each message.
func ExampleHandlers() {
	var handlers kit.Handlers // of an iface
	handlers.Init(nil)
	handlers.Set(5, func(_ *uct.Source, data []byte, _ *uct.AMDesc) error { // uct.Iface.SetAMHandler
		fmt.Printf("received %q\n", data)
		return nil
	})
	handlers.Deliver(nil, 5, []byte("hello"), nil)
	// Output:
	// received "hello"
}

// A domain keeps registered memory in a table, and its endpoints access only what a region
// permits.
func ExampleRegions() {
	var regions kit.Regions // of a memory domain
	memory := []byte("read, but do not write")
	r := regions.Add(memory, uct.AccessRemoteGet) // uct.MemoryDomain.Register

	b, ok := r.At(r.Addr(), 4, uct.AccessRemoteGet)
	fmt.Printf("get: %q %v\n", b, ok)
	_, ok = r.At(r.Addr(), 4, uct.AccessRemotePut)
	fmt.Println("put:", ok)
	_, ok = r.At(r.Addr()+20, 4, uct.AccessRemoteGet)
	fmt.Println("get across the end:", ok)

	regions.Remove(r) // uct.MemoryDomain.Deregister
	_, ok = r.At(r.Addr(), 4, uct.AccessRemoteGet)
	fmt.Println("get afterwards:", ok)
	// Output:
	// get: "read" true
	// put: false
	// get across the end: false
	// get afterwards: false
}
