package kit

import (
	"errors"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
)

// mortal is an endpoint that can fail.
type mortal struct {
	uct.Endpoint
	name   string
	closed bool
	over   []error
	onOver func()
}

func (m *mortal) Over(err error) (any, bool) {
	m.over = append(m.over, err)
	if m.onOver != nil {
		m.onOver()
	}
	return m.name, !m.closed
}

// TestFailures: OnError is called once per failed endpoint, in order, after its operations have
// completed. It is not called for an endpoint closed by then, and is called for one that fails
// during the report.
func TestFailures(t *testing.T) {
	var f Failures
	var told []string
	a, b, c, d := &mortal{name: "a"}, &mortal{name: "b"}, &mortal{name: "c"}, &mortal{name: "d"}
	cause := errors.New("cause")
	to := &Reporter{}
	to.OnError = func(ep uct.Endpoint, userData any, err error) {
		if ep != uct.Endpoint(map[any]*mortal{"a": a, "b": b, "c": c, "d": d}[userData]) || err != cause || len(ep.(*mortal).over) != 1 {
			t.Errorf("told of %v, %v, %v", ep, userData, err)
		}
		told = append(told, userData.(string))
		if userData == "a" {
			b.closed = true
			f.Add(to, d, cause)
			if n := f.Report(); n != 0 {
				t.Errorf("%d reported inside a report", n)
			}
		}
	}
	c.onOver = func() { c.closed = true } // in a completion of its operations
	if !f.Empty() || f.Report() != 0 {
		t.Error("the zero value is not empty")
	}
	f.Add(to, a, cause)
	f.Add(to, b, cause)
	f.Add(to, c, cause)
	if f.Empty() || len(a.over) != 0 || told != nil {
		t.Error("told at once")
	}
	if n := f.Report(); n != 4 || !f.Empty() || !slices.Equal(told, []string{"a", "d"}) {
		t.Errorf("%d reported, told of %v", n, told)
	}
	for _, m := range []*mortal{a, b, c, d} {
		if len(m.over) != 1 || m.over[0] != cause {
			t.Errorf("operations of %s ended with %v", m.name, m.over)
		}
	}
	if f.Report() != 0 || len(told) != 2 {
		t.Error("told again")
	}
}

// TestFailureLogged: a failure without OnError is logged.
func TestFailureLogged(t *testing.T) {
	logtest.Watch(t).Expect("endpoint failed")
	var f Failures
	f.Add(&Reporter{Level: log.LevelWarn}, &mortal{}, errors.New("cause"))
	f.Report()
}

func TestFailuresDoNotAllocate(t *testing.T) {
	var f Failures
	m, cause := new(mortal), errors.New("cause")
	to := &Reporter{OnError: func(uct.Endpoint, any, error) {}}
	if n := testing.AllocsPerRun(100, func() {
		m.over = m.over[:0]
		f.Add(to, m, cause)
		f.Report()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
