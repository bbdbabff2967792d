package self

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// TestFailureLevel: a failure without an error handler is logged at the level of the settings,
// whether set for this transport or for all.
func TestFailureLevel(t *testing.T) {
	for setting, want := range map[string]log.Level{
		"": log.LevelDiag, "SELF_FAILURE=error": log.LevelError, "FAILURE=debug": log.LevelDebug,
	} {
		core, logs := observer.New(log.LevelPoll.Zap())
		previous := log.SetLogger(zap.New(core))
		f := fixture()
		if name, value, ok := strings.Cut(setting, "="); ok {
			f = fixture(name, value)
		}
		h := f.Open(t)
		i, err := h.Domain.OpenIface(h.Worker, uct.IfaceParams{Transport: "self", Device: "memory"}, f.Config) // without OnError
		if err != nil {
			t.Fatal(err)
		}
		refuse := func(*uct.Source, []byte, *uct.AMDesc) error { return ucs.ErrInvalidParam }
		if err := i.SetAMHandler(0, refuse); err != nil {
			t.Fatal(err)
		}
		ep, err := i.NewEndpoint(uct.EndpointParams{IfaceAddr: i.Address()})
		if err != nil {
			t.Fatal(err)
		}
		if err := ep.AMShort(0, 0, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		h.Worker.Progress()
		ep.Close()
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		log.SetLogger(previous)
		found := false
		for _, e := range logs.All() {
			text, _ := e.ContextMap()["error"].(string)
			found = found || e.Level == want.Zap() && strings.Contains(text, "dropped by the receiver")
		}
		if !found {
			t.Errorf("%q: logged %v, want one at level %v", setting, logs.All(), want)
		}
	}
}
