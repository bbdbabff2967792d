//go:build linux

package ib_test

import (
	"encoding/hex"
	"fmt"

	"github.com/ucx-go/ucx/uct/ib"
)

// The example parses the address that a peer publishes for its port, taken from a worker address.
func ExampleParseAddress() {
	packed, _ := hex.DecodeString("4a00000000000000000000ffffc0a8000503")
	a, err := ib.ParseAddress(packed)
	fmt.Println(a.String(), a.MTU, err)
	// Output: RoCE v2 192.168.0.5 1024 <nil>
}
