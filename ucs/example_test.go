package ucs_test

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// Errors of all packages match the status that C UCX would have returned, even if they contain more
// details.
func ExampleStatus() {
	err := fmt.Errorf("connect to 10.0.0.7:4711: %w", ucs.ErrUnreachable)

	fmt.Println(err)
	fmt.Println(errors.Is(err, ucs.ErrUnreachable))
	fmt.Println(int(ucs.StatusOf(err)), ucs.StatusOf(err).IsError())
	// Output:
	// connect to 10.0.0.7:4711: destination is unreachable
	// true
	// -6 true
}
