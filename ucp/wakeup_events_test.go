package ucp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestWakeupEventsRefused checks that unknown events, and events of a worker that cannot wake a
// sleeper, are refused.
func TestWakeupEventsRefused(t *testing.T) {
	for _, tc := range []struct {
		features ucp.Features
		events   ucp.WakeupEvents
		ok       bool
	}{
		{ucp.FeatureTag, 0, true},
		{ucp.FeatureTag, ucp.WakeupRX, false},
		{ucp.FeatureTag | ucp.FeatureWakeup, ucp.WakeupRX, true},
		{ucp.FeatureTag | ucp.FeatureWakeup, ucp.WakeupRMA | ucp.WakeupAMO | ucp.WakeupTagSend | ucp.WakeupTagRecv | ucp.WakeupTX, true},
		{ucp.FeatureTag | ucp.FeatureWakeup, ucp.WakeupRX | ucp.WakeupEdge, false},
		{ucp.FeatureTag | ucp.FeatureWakeup, 1 << 4, false},
		{ucp.FeatureTag | ucp.FeatureWakeup, 1 << 31, false},
	} {
		w, err := newContext(t, ucp.ContextParams{Features: tc.features}).NewWorker(ucp.WorkerParams{Events: tc.events})
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v, events %#x: %v", tc.features, uint32(tc.events), err)
		}
		if w != nil {
			w.Close()
		}
	}
}

// TestWakeupEventsWake checks that a worker that asks for some events is woken for them.
func TestWakeupEventsWake(t *testing.T) {
	for _, events := range []ucp.WakeupEvents{0, ucp.WakeupTagRecv, ucp.WakeupRX, ucp.WakeupTagRecv | ucp.WakeupTagSend} {
		w, err := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}).NewWorker(ucp.WorkerParams{Events: events})
		if err != nil {
			t.Fatal(err)
		}
		addr, err := w.Address(0)
		if err != nil {
			t.Fatal(err)
		}
		ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
		if err != nil {
			t.Fatal(err)
		}
		recv, err := w.TagRecv(1, ucp.FullMask, make([]byte, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ep.TagSend(1, make([]byte, 8), nil); err != nil {
			t.Fatal(err)
		}
		for !recv.Done() {
			if w.Progress() == 0 {
				if err := w.Wait(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Close()
	}
}

// TestWorkerUserData checks that the application gets back the user data that it gave to a worker.
func TestWorkerUserData(t *testing.T) {
	type mine struct{ n int }
	w, err := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag}).NewWorker(ucp.WorkerParams{UserData: &mine{7}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if got, ok := w.Attr().UserData.(*mine); !ok || got.n != 7 {
		t.Errorf("user data %v", w.Attr().UserData)
	}
}

// TestWakeupEventsTold checks that a worker reports which events wake it, which may be more than
// the application asked for.
func TestWakeupEventsTold(t *testing.T) {
	const (
		sends    = ucp.WakeupRMA | ucp.WakeupAMO | ucp.WakeupTagSend | ucp.WakeupTX
		receives = ucp.WakeupTagRecv | ucp.WakeupRX
	)
	for events, want := range map[ucp.WakeupEvents]ucp.WakeupEvents{
		0: sends | receives, ucp.WakeupTX: sends, ucp.WakeupAMO: sends, ucp.WakeupRX: receives,
		ucp.WakeupTagRecv: receives, ucp.WakeupTagRecv | ucp.WakeupTagSend: sends | receives,
	} {
		w, err := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}).NewWorker(ucp.WorkerParams{Events: events})
		if err != nil {
			t.Fatal(err)
		}
		if told := w.Attr().Wakeup; told != want {
			t.Errorf("events %#x: it says %#x, want %#x", uint32(events), uint32(told), uint32(want))
		}
		w.Close()
	}
	w, err := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag}).NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	if told := w.Attr().Wakeup; told != 0 {
		t.Errorf("without wakeups: %#x", uint32(told))
	}
	w.Close()
}
