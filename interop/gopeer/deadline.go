package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// The commands for calls that wait until a deadline, and related ones.
func init() {
	maps.Copy(commands, map[string]command{
		"recvby":     {4, (*server).recvBy},
		"srecvby":    {5, (*server).streamRecvBy},
		"amrecvby":   {3, (*server).amRecvBy},
		"untouched":  {0, (*server).untouched},
		"thresholds": {1, (*server).thresholds},
		"shutdownep": {2, (*server).shutdownEndpoint},
	})
}

// recvWithDeadline runs a waiting receive into a new buffer, with a context that ends after the given number of
// microseconds (us). It stores the buffer of a canceled receive for the command untouched, because
// nothing may write to it afterwards.
func (s *server) recvWithDeadline(size, seed, us string, receive func(ctx context.Context, buf []byte) (ucp.TagRecvInfo, error)) (string, error) {
	n, err := numbers(size, us)
	if err != nil {
		return "", err
	}
	c, err := contents(seed)
	if err != nil {
		return "", err
	}
	b, err := newBuffer("contig", int(n[0]))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n[1])*time.Microsecond)
	defer cancel()
	info, err := receive(ctx, b.pieces[0])
	switch {
	case errors.Is(err, ucs.InProgress):
		return "", fmt.Errorf("a receive that still has its buffer: %w", err)
	case err == nil || info.Length > 0:
		return fmt.Sprintf("%d %#x %d %s", int(ucs.StatusOf(err)), uint64(info.SenderTag), info.Length, b.verify(c, info.Length)), nil
	case errors.Is(err, ucs.ErrCanceled) != (ctx.Err() != nil):
		return "", fmt.Errorf("a receive has ended with %w; its context: %v", err, ctx.Err())
	}
	verdict := "none"
	if slices.ContainsFunc(b.pieces[0], func(v byte) bool { return v != filler }) {
		verdict = "part"
	}
	b.place(b.storage, []int{int(n[0])})
	s.canceledBuffers = append(s.canceledBuffers, b)
	return fmt.Sprintf("%d 0x0 0 %s", int(ucs.StatusOf(err)), verdict), nil
}

// recvBy runs the command "recvby TAG SIZE SEED US", which receives a tagged message with a
// deadline.
func (s *server) recvBy(args []string) (string, error) {
	tag, err := numbers(args[0])
	if err != nil {
		return "", err
	}
	return s.recvWithDeadline(args[1], args[2], args[3], func(ctx context.Context, buf []byte) (ucp.TagRecvInfo, error) {
		return s.worker().TagRecvWait(ctx, ucp.Tag(tag[0]), ucp.FullMask, buf)
	})
}

// streamRecvBy runs the command "srecvby EP SIZE SEED some|all US", which receives from a stream
// with a deadline.
func (s *server) streamRecvBy(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	receive := ep.StreamRecvWait
	if args[3] == "all" {
		receive = ep.StreamRecvFullWait
	}
	return s.recvWithDeadline(args[1], args[2], args[4], func(ctx context.Context, buf []byte) (info ucp.TagRecvInfo, err error) {
		info.Length, err = receive(ctx, buf)
		return info, err
	})
}

// amRecvBy runs the command "amrecvby SIZE SEED US", which receives the kept data of the message in
// hand with a deadline.
func (s *server) amRecvBy(args []string) (string, error) {
	a, err := s.inHand()
	if err != nil {
		return "", err
	}
	if a.kept == nil {
		return "", errors.New("there is no kept data")
	}
	return s.recvWithDeadline(args[0], args[1], args[2], func(ctx context.Context, buf []byte) (info ucp.TagRecvInfo, err error) {
		info.Length, err = a.kept.RecvWait(ctx, buf)
		return info, err
	})
}

func (s *server) untouched([]string) (string, error) {
	n := len(s.canceledBuffers)
	for _, b := range s.canceledBuffers {
		if k := slices.IndexFunc(b.storage, func(v byte) bool { return v != filler }); k >= 0 {
			return "", fmt.Errorf("the buffer of a receive that was given up, of %d bytes, is written to at %d", len(b.pieces[0]), k-guard)
		}
	}
	s.canceledBuffers = nil
	return strconv.Itoa(n), nil
}

// thresholds runs the command "thresholds EP", which returns the message sizes at which the
// protocol changes.
func (s *server) thresholds(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	var list []int
	for _, table := range ep.Explain().Protocols {
		for _, r := range table.Ranges {
			list = append(list, r.Min)
		}
	}
	slices.Sort(list)
	return strings.Trim(fmt.Sprint(slices.Compact(list)), "[]"), nil
}

// shutdownEndpoint runs the command "shutdownep EP MS", which shuts down an endpoint with a
// deadline.
func (s *server) shutdownEndpoint(args []string) (string, error) {
	ep, err := s.endpoint(args[0])
	if err != nil {
		return "", err
	}
	ms, err := numbers(args[1])
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds(ms[0]))
	defer cancel()
	if err = ep.Shutdown(ctx); err == nil {
		return "0", nil
	}
	ep.Endpoint = nil
	return fmt.Sprintf("%d %v", int(ucs.StatusOf(err)), err), nil
}
