//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestRenew checks that a closed region can be registered again for other memory, with new keys. An
// open region cannot, and a refused attempt changes nothing.
func TestRenew(t *testing.T) {
	k := verbstest.New()
	c := must(verbs.NewContext(k.Open(), 2))(t)
	pd := must(c.AllocPD())(t)
	first, second := make([]byte, 5000), make([]byte, 300)
	m := must(pd.RegMR(first, fullAccess))(t)
	wantErr(t, m.Renew(second, fullAccess), ucs.ErrInvalidParam, "one that is open")
	if m.Len() != len(first) || &m.Bytes()[0] != &first[0] {
		t.Errorf("%d bytes after that", m.Len())
	}
	old := m.RKey()
	check(t, m.Close())
	wantErr(t, m.Renew(nil, fullAccess), ucs.ErrInvalidParam, "no memory")
	wantErr(t, m.Renew(second, verbs.AccessRemoteWrite), ucs.ErrInvalidParam, "impossible access")
	k.SetMemLock(1)
	wantErr(t, m.Renew(second, fullAccess), ucs.ErrNoMemory, "too much memory")
	k.SetMemLock(0)
	if now, _ := k.Pinned(); now != 0 {
		t.Errorf("%d bytes are pinned after refusals", now)
	}
	check(t, m.Renew(second, verbs.AccessLocalWrite))
	if m.Len() != len(second) || &m.Bytes()[0] != &second[0] || m.RKey() != 0 {
		t.Errorf("%d bytes with the key %#x", m.Len(), m.RKey())
	}
	check(t, m.Close())
	check(t, m.Renew(first, fullAccess))
	if m.RKey() == 0 || m.RKey() == old {
		t.Errorf("key %#x, before %#x", m.RKey(), old)
	}
	check(t, m.Close())
	wantErr(t, m.Close(), ucs.ErrInvalidParam, "closed twice")
	check(t, pd.Close())
	check(t, c.Close())
}
