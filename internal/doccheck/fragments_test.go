package doccheck

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucp"
)

// The functions up to the mark below are shown in docs/from-c.md.

// snippet ask
func ask(ctx context.Context, w *ucp.Worker, ep *ucp.Endpoint, buf []byte) (int, error) {
	if err := ep.TagSendWait(ctx, 1, []byte("question")); err != nil {
		return 0, err
	}
	info, err := w.TagRecvWait(ctx, 2, ucp.FullMask, buf)
	return info.Length, err
}

func askByRequests(w *ucp.Worker, ep *ucp.Endpoint, buf []byte) (int, error) {
	req, err := ep.TagSend(1, []byte("question"), nil)
	if err := finish(w, req, err); err != nil {
		return 0, err
	}
	var info ucp.TagRecvInfo // filled in if the receive is done in the call
	req, err = w.TagRecv(2, ucp.FullMask, buf, &ucp.RequestParams{TagInfo: &info})
	if err := finish(w, req, err); err != nil || req == nil {
		return info.Length, err
	}
	info, err = req.TagRecvInfo()
	req.Free()
	return info.Length, err
}

func finish(w *ucp.Worker, req *ucp.Request, err error) error {
	for err == nil && !req.Done() {
		w.Progress()
	}
	if err != nil {
		return err
	}
	return req.Err()
}

// end

// TestFragments runs the Go functions of the document against a peer that answers, and compares
// their source with the document.
func TestFragments(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	own := newWorker(t)
	ep := connect(t, own, own) // the worker is its own peer
	for name, ask := range map[string]func(buf []byte) (int, error){
		"ask":           func(buf []byte) (int, error) { return ask(ctx, own, ep, buf) },
		"askByRequests": func(buf []byte) (int, error) { return askByRequests(own, ep, buf) },
	} {
		if err := ep.TagSendWait(ctx, 2, []byte("answer")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 16)
		if n, err := ask(buf); err != nil || string(buf[:n]) != "answer" {
			t.Errorf("%s: %q, %v", name, buf[:n], err)
		}
		question := make([]byte, 16)
		info, err := own.TagRecvWait(ctx, 1, ucp.FullMask, question)
		if err != nil || string(question[:info.Length]) != "question" {
			t.Errorf("%s: has sent %q, %v", name, question[:info.Length], err)
		}
	}
	if err := ep.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	shown(t, "go", "fragments_test.go")
}

// newWorker returns a worker with tagged messages.
func newWorker(t *testing.T) *ucp.Worker {
	t.Helper()
	c, err := ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// connect returns an endpoint from one worker to another.
func connect(t *testing.T, from, to *ucp.Worker) *ucp.Endpoint {
	t.Helper()
	address, err := to.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := from.NewEndpoint(ucp.EndpointParams{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

// shown checks that the document's block of code in a language is part of a file.
func shown(t *testing.T, language, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := read(t, fromC).blocks[language]
	if block == "" || !strings.Contains(string(text), block) {
		t.Errorf("%s: the %s in it is not that of %s", fromC, language, file)
	}
}

// TestFragmentC compiles the document's C functions.
func TestFragmentC(t *testing.T) {
	shown(t, "c", "testdata/ask.c")
	if _, err := exec.LookPath("cc"); err != nil {
		needtest.Tool(t, "C compiler")
	}
	if err := exec.Command("cc", "-fsyntax-only", "-include", "ucp/api/ucp.h", "-x", "c", "/dev/null").Run(); err != nil {
		needtest.Tool(t, "libucx-dev")
	}
	out, err := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "-Wall", "-Werror", "testdata/ask.c").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
