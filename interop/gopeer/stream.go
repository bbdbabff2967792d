package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The commands for streams.
func init() {
	maps.Copy(commands, map[string]command{
		"ssend": {5, (*server).streamSend},
		"srecv": {5, (*server).streamRecv},
		"sdata": {3, (*server).streamData},
		"spoll": {1, (*server).streamPoll},
	})
}

// streamSend runs the command "ssend REQ EP SIZE SEED LAYOUT", which sends to a stream.
func (s *server) streamSend(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	b, err := s.filled(args[4], int(n[0]), args[3])
	if err != nil {
		return "", err
	}
	r := &request{buffer: b}
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	bytes, params := b.argument(s.generic)
	r.handle, r.err = ep.StreamSend(bytes, params)
	return "", nil
}

// streamRecv runs the command "srecv REQ EP SIZE LAYOUT some|all", which receives from a stream.
func (s *server) streamRecv(args []string) (string, error) {
	ep, err := s.endpoint(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	b, err := s.newBuffer(args[3], int(n[0]))
	if err != nil {
		return "", err
	}
	r := &request{buffer: b, isReceive: true, untagged: true}
	if err := s.newRequest(args[0], r); err != nil {
		return "", err
	}
	bytes, params := b.argument(s.generic)
	if args[4] == "all" {
		params.StreamFlags = ucp.StreamRecvWaitAll
	}
	r.info.Length, r.handle, r.err = ep.StreamRecv(bytes, params)
	return "", nil
}

// streamData runs the command "sdata EP SEED MS", which takes the next bytes of a stream without a
// copy.
func (s *server) streamData(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	c, err := contents(args[1])
	if err != nil {
		return "", err
	}
	n, err := numbers(args[2])
	if err != nil {
		return "", err
	}
	var data ucp.StreamData
	var failed error
	if err := s.progressUntil(milliseconds(n[0]), func() bool {
		data, failed = ep.StreamRecvData()
		return failed != nil || data.Bytes() != nil
	}); err != nil {
		return "", err
	}
	if failed != nil {
		return fmt.Sprintf("%d 0x0 0 same", int(ucs.StatusOf(failed))), nil
	}
	defer data.Release()
	return fmt.Sprintf("0 0x0 %d %s", len(data.Bytes()), c.compare(data.Bytes())), nil
}

// streamPoll runs the command "spoll MS", which returns the endpoints that have unread stream data.
func (s *server) streamPoll(args []string) (string, error) {
	ms, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	ready := make([]ucp.StreamReady, len(s.endpoints))
	var n int
	var failed error
	if err := s.progressUntil(milliseconds(ms[0]), func() bool {
		n, failed = s.worker().StreamPoll(ready)
		return n > 0 || failed != nil
	}); err != nil {
		return "", err
	}
	var list []string
	for _, r := range ready[:n] {
		list = append(list, fmt.Sprint(r.UserData))
	}
	return strings.Join(list, " "), failed
}
