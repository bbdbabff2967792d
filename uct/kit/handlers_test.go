package kit

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// TestHandlers compares with a map: each message goes to the handler that was set last, with all
// its arguments, and the handler's result is returned.
func TestHandlers(t *testing.T) {
	defer log.SetLogger(log.SetLogger(zap.NewNop()))
	rapid.Check(t, func(t *rapid.T) {
		var h Handlers
		h.Init(nil)
		model := make(map[uct.AMID]int)
		ids := rapid.Map(rapid.IntRange(0, uct.MaxAMIDs-1), func(n int) uct.AMID { return uct.AMID(n) })
		src, desc, next, called := new(uct.Source), new(uct.AMDesc), 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				next++
				n := next
				if err := h.Set(id, func(s *uct.Source, data []byte, d *uct.AMDesc) error {
					if s != src || d != desc || string(data) != "data" {
						t.Fatalf("called with %p, %q, %p", s, data, d)
					}
					called = n
					return ucs.InProgress
				}); err != nil {
					t.Fatal(err)
				}
				model[id] = n
			},
			"remove": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				if err := h.Set(id, nil); err != nil {
					t.Fatal(err)
				}
				delete(model, id)
			},
			"beyond": func(t *rapid.T) {
				id := uct.AMID(rapid.IntRange(uct.MaxAMIDs, 255).Draw(t, "id"))
				if err := h.Set(id, nil); !errors.Is(err, ucs.ErrInvalidParam) {
					t.Fatalf("id %d: %v", id, err)
				}
			},
			"deliver": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				called = 0
				err := h.Deliver(src, id, []byte("data"), desc)
				want, there := model[id]
				if called != want || there != (err == ucs.InProgress) || !there && err != nil {
					t.Fatalf("id %d: handler %d, result %v, want handler %d", id, called, err, want)
				}
			},
		})
	})
}

// TestHandlerReplacesItself: a handler that replaces itself still handles its own message.
func TestHandlerReplacesItself(t *testing.T) {
	var h Handlers
	h.Init(nil)
	var log []string
	h.Set(1, func(*uct.Source, []byte, *uct.AMDesc) error {
		h.Set(1, func(*uct.Source, []byte, *uct.AMDesc) error {
			log = append(log, "second")
			return nil
		})
		log = append(log, "first")
		return nil
	})
	for range 2 {
		h.Deliver(nil, 1, nil, nil)
	}
	if strings.Join(log, " ") != "first second" {
		t.Errorf("called %v", log)
	}
}

// TestUnknownMessagesLogged: messages without a handler are logged once.
func TestUnknownMessagesLogged(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	defer log.SetLogger(log.SetLogger(zap.New(core)))
	var h Handlers
	h.Init(nil)
	for id := range uct.AMID(uct.MaxAMIDs) {
		if err := h.Deliver(nil, id, []byte("data"), nil); err != nil {
			t.Errorf("id %d: %v", id, err)
		}
	}
	if logs.Len() != 1 {
		t.Errorf("%d warnings", logs.Len())
	}
}

func TestDeliverDoesNotAllocate(t *testing.T) {
	var h Handlers
	h.Init(nil)
	n := 0
	h.Set(3, func(*uct.Source, []byte, *uct.AMDesc) error { n++; return nil })
	data := make([]byte, 8)
	if a := testing.AllocsPerRun(100, func() { h.Deliver(nil, 3, data, nil) }); a != 0 || n == 0 {
		t.Errorf("%v allocations, %d calls", a, n)
	}
}
