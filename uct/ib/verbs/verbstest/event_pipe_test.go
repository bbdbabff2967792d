//go:build linux

package verbstest

import (
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestEventsTakenBack checks that destroying a queue returns how many of its events were read, and
// removes the others, but no events of other queues.
func TestEventsTakenBack(t *testing.T) {
	ucttest.NoLeaks(t)
	f := New().open()
	do := func(c *uverbs.Call) {
		t.Helper()
		if err := c.Do(f, Driver); err != nil {
			t.Fatal(err)
		}
	}
	var async, handle [2]uint32
	do(uverbs.NewCall(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT))
	do(uverbs.NewCall(abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC).NewFD(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, &async[0]))
	var channel abi.CreateCompChannelResp
	do(uverbs.Invoke(abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, abi.Bytes(&abi.CreateCompChannel{}), abi.Bytes(&channel)))
	for i := range handle {
		do(uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE).
			New(abi.UVERBS_ATTR_CREATE_CQ_HANDLE, &handle[i]).
			U32(abi.UVERBS_ATTR_CREATE_CQ_CQE, 1).
			U64(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, uint64(100+i)).
			FD(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, int(channel.Fd)).
			U32(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0).
			Out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, make([]byte, 4)).
			DriverOut(make([]byte, 16)))
	}
	f.k.net.mu.Lock()
	for range 2 {
		for _, h := range handle {
			c, _ := find[*cq](f, h)
			c.raiseEvent()
			f.event(eventCQErr, c.user)
			f.event(eventQPAccessErr, c.user) // of another object with the same user handle
		}
	}
	f.k.net.mu.Unlock()
	read := func(fd uint32, size int) uint64 {
		t.Helper()
		b := make([]byte, size)
		if n, err := syscall.Read(int(fd), b); err != nil || n != size {
			t.Fatal(n, err)
		}
		return u64(b)
	}
	if a, b := read(channel.Fd, 8), read(async[0], 16); a != 100 || b != 100 {
		t.Errorf("events of %d and %d come first", a, b)
	}
	resp := abi.DestroyCqResp{CompEventsReported: 7, AsyncEventsReported: 7}
	do(uverbs.NewCall(abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY).
		Destroy(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE, handle[0]).Out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, abi.Bytes(&resp)))
	if resp.CompEventsReported != 1 || resp.AsyncEventsReported != 1 {
		t.Errorf("%+v", resp)
	}
	for range 2 {
		if id := read(channel.Fd, 8); id != 101 {
			t.Errorf("an event of %d", id)
		}
	}
	var kinds []uint64
	for range 5 {
		kinds = append(kinds, read(async[0], 16))
	}
	if want := [5]uint64{100, 101, 101, 100, 101}; [5]uint64(kinds) != want {
		t.Errorf("events of %v are left, want %v", kinds, want)
	}
	syscall.Close(int(async[0]))
	syscall.Close(int(channel.Fd))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
