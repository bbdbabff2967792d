//go:build linux

package verbs_test

import (
	"context"
	"fmt"
	"log"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// A queue pair connected to itself writes from one half of its memory to the
// other. docs/rdma.md has the same lines.
func Example() {
	// snippet write
	// A device made up for tests. Another: verbs.FindDevice("", "rxe0"), then Open.
	dev, err := verbs.NewContext(verbstest.New().Open(), 0)
	fail(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	fail(err)
	channel, err := dev.CreateCompChannel()
	fail(err)
	cq, err := dev.CreateCQ(16, channel, 0)
	fail(err)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	mr, err := pd.RegMR(make([]byte, 4096), access)
	fail(err)
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 1, MaxRecvSGE: 1}})
	fail(err)

	// The number, PSN and GID of the peer; here its own.
	gid, err := dev.DefaultGID(1)
	fail(err)
	attr := verbs.QPAttr{Port: 1, Access: access, PathMTU: verbs.MTU1024, DestQPN: qp.QPN(), AH: gid.To(gid.GID),
		Timeout: 14, RetryCount: 6, RNRRetry: 6, MinRNRTimer: 12, MaxRdAtomic: 1, MaxDestRdAtomic: 1}
	fail(qp.Init(&attr))
	fail(qp.Connect(&attr))

	n := copy(mr.Bytes(), "hello, device")
	_, err = qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{mr.SGE(0, n)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()}})
	fail(err)
	wc := make([]verbs.WC, 1)
	_, err = cq.Wait(context.Background(), wc)
	fail(err)
	fail(wc[0].Err())
	fmt.Printf("%v: %s\n", wc[0].Opcode, mr.Bytes()[2048:2048+n])
	// end

	// Output: RDMA_WRITE: hello, device
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
