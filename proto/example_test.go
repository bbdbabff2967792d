package proto_test

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
)

// Every message has a header type that appends itself, and a function that parses it. A message of
// a peer is parsed or refused.
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
