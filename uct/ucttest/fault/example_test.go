package fault_test

import (
	"fmt"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// A plan is a function of the operation that is tried, so a run that failed can be
// repeated. This one breaks the connection at the second message with id 3.
func ExamplePlan() {
	plan := fault.Only(func(op fault.Op) bool { return op.ID == 3 }, fault.DropAt(2))

	for _, op := range []fault.Op{{ID: 3, N: 1}, {ID: uct.AMID(4), N: 2}, {ID: 3, N: 2}} {
		fmt.Println(plan(op).Drop)
	}
	// Output:
	// <nil>
	// <nil>
	// connection reset by remote peer
}
