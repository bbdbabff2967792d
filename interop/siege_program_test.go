//go:build linux

package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/ucx-go/ucx/ucp"
)

// The processes of the siege are the test program itself, with their role in the environment: a
// peer in another network must be another process. The same holds for the relay of a program on
// another machine.
const siegeRole = "UCX_SIEGE_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func() error{"server": siegeServe, "client": siegeClient, "attacker": siegeAttack, "relay": relay}
	role := os.Getenv(siegeRole)
	if role == "" {
		code := m.Run()
		os.RemoveAll(workshop.folder)
		os.Exit(code)
	}
	if err := roles[role](); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
		os.Exit(1)
	}
}

// commands returns the lines of standard input; the channel is closed at its end. wake is called
// after each line.
func commands(wake func()) <-chan string {
	lines := make(chan string, 1)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			lines <- in.Text()
			wake()
		}
		close(lines)
		wake()
	}()
	return lines
}

// answer prints a value on a line.
func answer(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", b)
	return err
}

// siegeWorker makes the context and the worker of a client or the server. end closes both.
func siegeWorker() (c *ucp.Context, w *ucp.Worker, end func(), err error) {
	c, err = ucp.NewContext(ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureRMA | ucp.FeatureAMO64 | ucp.FeatureWakeup}, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if w, err = c.NewWorker(ucp.WorkerParams{}); err != nil {
		c.Close()
		return nil, nil, nil, err
	}
	return c, w, func() {
		w.Close()
		c.Close()
	}, nil
}
