//go:build linux

package interop

import (
	"fmt"
	"slices"
	"time"
)

// runClients runs clients one after the other, each a new process with a server of its own, and
// returns the median of their times from start to exit, which include the connection and a message
// in each direction. C's program is its example ucp_client_server; Go's is partner, which other
// tests run against that example.
func (r perfRun) runClients(where *place) (perfResult, error) {
	var server *process
	defer func() {
		if server != nil {
			server.kill()
		}
	}()
	var took []float64
	for range r.iterations {
		port, err := where.freePort()
		if err != nil {
			return perfResult{}, err
		}
		p := r.client
		p.tool = p.partner
		at := "127.0.0.1:" + port
		serve := []string{"stream", "serve", at, "1", "1", "8", "fin"} // for one client
		connect := []string{"stream", "connect", at, "1", "1", "8", "fin"}
		if !p.ours {
			p.tool = p.example
			serve = []string{"-c", "stream", "-i", "1", "-s", "8", "-l", "127.0.0.1", "-p", port}
			connect = append(slices.Clone(serve[:6]), "-a", "127.0.0.1", "-p", port)
		}
		if server, err = r.start(where, p, r.cpus[0], r.serverEnv, nil, serve...); err != nil {
			return perfResult{}, err
		}
		if err := server.listening(port); err != nil {
			return perfResult{}, err
		}
		begun := time.Now()
		client, err := r.start(where, p, r.cpus[1], r.clientEnv, nil, connect...)
		if err != nil {
			return perfResult{}, err
		}
		err = client.wait(operationLimit)
		took = append(took, float64(time.Since(begun).Microseconds()))
		if err != nil {
			return perfResult{}, fmt.Errorf("client: %w\nserver:\n%s", err, server.output)
		}
		server.kill() // C's never exits
	}
	return perfResult{typical: quantile(took, 0.5)}, nil
}
