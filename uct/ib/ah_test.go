//go:build linux

package ib

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestKnowsWay: a way is known while there is a handle for it, and never waited for.
func TestKnowsWay(t *testing.T) {
	ctx, err := verbs.NewContext(verbstest.New().Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	d := &Domain{ctx: ctx, pd: pd}
	d.handles.pd = pd
	own, err := ctx.DefaultGID(1)
	if err != nil {
		t.Fatal(err)
	}
	to := own.To(own.GID)
	if d.KnowsWay(to) {
		t.Error("known before anybody has asked")
	}
	a, err := d.AddressHandle(to)
	if err != nil {
		t.Fatal(err)
	}
	if !d.KnowsWay(to) {
		t.Error("not known")
	}
	a.Done()
	if !d.KnowsWay(to) {
		t.Error("not known although it is kept")
	}
	d.handles.mu.Lock() // somebody asks for another one
	if d.KnowsWay(to) {
		t.Error("known, without looking")
	}
	d.handles.mu.Unlock()
	if err := d.handles.close(); err != nil {
		t.Error(err)
	}
}
