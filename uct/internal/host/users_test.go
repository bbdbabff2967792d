//go:build linux

package host

import (
	"errors"
	"os"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
)

func TestUsers(t *testing.T) {
	own := os.Geteuid()
	other := own + 1
	for _, c := range []struct {
		text, again     string
		own, other, sum bool // sum: whether it is a valid setting
	}{
		{"all", "all", true, true, true},
		{"7, ALL", "all", true, true, true},
		{"self", "self", true, false, true},
		{" Self ,4000000000", "self,4000000000", true, false, true},
		{"4000000000", "4000000000", false, false, false},
	} {
		set := new(config.Set)
		if err := set.Modify("SHM_ALLOW", c.text); err != nil {
			t.Fatal(err)
		}
		u, err := LoadUsers(set)
		if (err == nil) != c.sum || err != nil && !errors.Is(err, ucs.ErrUnsupported) {
			t.Errorf("%q: %v", c.text, err)
		}
		if u.String() != c.again || u.Has(own) != c.own || u.Has(other) != c.other {
			t.Errorf("%q is %v; itself %v, another one %v", c.text, u, u.Has(own), u.Has(other))
		}
		if err := u.Check(other); (err == nil) != c.other || err != nil && !errors.Is(err, ucs.ErrUnreachable) {
			t.Errorf("%q: %v", c.text, err)
		}
		if err := u.CheckProcess(os.Getpid()); (err == nil) != c.own {
			t.Errorf("%q: %v", c.text, err)
		}
		if err := u.CheckProcess(MaxPID + 1); (err == nil) != (c.again == "all") {
			t.Errorf("%q: a process that there is not: %v", c.text, err)
		}
	}
	for _, bad := range []string{"", "-1", "root", "1000,", "4294967296"} {
		if err := new(config.Set).Modify("SHM_ALLOW", bad); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
