package proto_test

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
)

// Every message is a header that appends itself and a function that parses it. What
// a peer sends is parsed or refused, never believed.
func ExampleParseEagerOnly() {
	message := proto.EagerOnly{Tag: 0x1234}.Append(nil)
	message = append(message, "hello"...)
	fmt.Printf("%x\n", message)

	header, payload, err := proto.ParseEagerOnly(message)
	fmt.Printf("%#x %q %v\n", header.Tag, payload, err)

	_, _, err = proto.ParseEagerOnly(message[:5])
	fmt.Println(err)
	// Output:
	// 341200000000000068656c6c6f
	// 0x1234 "hello" <nil>
	// eager only: shorter than its header
}
