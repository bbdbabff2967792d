package ucp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestUseAfterFree checks that every use of a freed request panics with a message that says so.
func TestUseAfterFree(t *testing.T) {
	for _, mode := range threadModes {
		w, _ := waitMemWorker(t, mode)
		for what, use := range map[string]func(r *ucp.Request){
			"Attr":        func(r *ucp.Request) { r.Attr() },
			"Cancel":      func(r *ucp.Request) { w.Cancel(r) },
			"Done":        func(r *ucp.Request) { r.Done() },
			"Err":         func(r *ucp.Request) { r.Err() },
			"Free":        func(r *ucp.Request) { r.Free() },
			"RecvLength":  func(r *ucp.Request) { r.RecvLength() },
			"TagRecvInfo": func(r *ucp.Request) { r.TagRecvInfo() },
			"UserData":    func(r *ucp.Request) { r.UserData() },
			"Wait":        func(r *ucp.Request) { r.Wait(context.Background()) },
		} {
			r, err := w.TagRecv(1, ucp.FullMask, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.Cancel(r)
			if err := r.Wait(context.Background()); !errors.Is(err, ucs.ErrCanceled) {
				t.Errorf("%v: a receive that was canceled: %v", mode, err)
			}
			if a, err := r.Attr(); err != nil || a.Err != ucs.ErrCanceled {
				t.Errorf("%v: before Free: %+v, %v", mode, a, err)
			}
			r.Free()
			if said := recovered(func() { use(r) }); !strings.Contains(said, "after Free") && !strings.Contains(said, "freed twice") {
				t.Errorf("%v: %s after Free: %q", mode, what, said)
			}
		}
	}
}

// recovered returns the value that f panics with, as text.
func recovered(f func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	f()
	return ""
}

// TestRequestUnused checks that a request without an operation has no attributes.
func TestRequestUnused(t *testing.T) {
	w, ep := waitMemWorker(t, ucs.ThreadModeSingle)
	own := new(ucp.Request)
	for what, r := range map[string]*ucp.Request{"nil": nil, "unused": own} {
		if a, err := r.Attr(); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
	}
	if r, err := ep.TagSend(1, nil, &ucp.RequestParams{Request: own}); r != nil || err != nil {
		t.Fatal(r, err)
	}
	if a, err := own.Attr(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("behind an operation that was done in its call: %+v, %v", a, err)
	}
	if _, err := w.TagRecvWait(context.Background(), 1, ucp.FullMask, nil); err != nil {
		t.Error(err)
	}
}
