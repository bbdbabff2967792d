package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Ids of active messages. Of a call the header is a callHeader, the data the arguments; of
// its answer the header is an answerHeader, the data the result, or the text of an error.
const (
	idCall   = 1
	idAnswer = 2
)

// longest is the limit of what is taken from a peer, in bytes: of arguments and of results.
const longest = 64 << 20

// receive returns the data of a message, which is over then. If ctx ends before data that
// was offered is here, nobody waits for it any more.
func receive(ctx context.Context, m *ucp.AMMessage) ([]byte, error) {
	if m.Len() > longest {
		return nil, fmt.Errorf("a message of %d bytes, %d are the limit", m.Len(), longest)
	}
	data := make([]byte, m.Len())
	_, err := m.RecvWait(ctx, data)
	return data, err
}

// callHeader says what is called.
type callHeader struct {
	call   uint64        // the caller's number for it
	limit  time.Duration // what is left until the caller's deadline, 0 without one
	method string
}

func (h callHeader) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, h.call)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.limit))
	return append(b, h.method...)
}

func parseCall(b []byte) (callHeader, error) {
	if len(b) < 16 {
		return callHeader{}, errors.New("the header of a call is too short")
	}
	return callHeader{
		call:   binary.LittleEndian.Uint64(b),
		limit:  time.Duration(binary.LittleEndian.Uint64(b[8:])),
		method: string(b[16:]),
	}, nil
}

// answerHeader says which call was answered, and how.
type answerHeader struct {
	call   uint64
	status status
}

// status is how a call has ended.
type status byte

const (
	succeeded status = iota
	failed
	late // at its deadline
)

func (h answerHeader) bytes() []byte {
	return append(binary.LittleEndian.AppendUint64(nil, h.call), byte(h.status))
}

func parseAnswer(b []byte) (answerHeader, error) {
	if len(b) != 9 {
		return answerHeader{}, errors.New("the header of an answer has another length")
	}
	return answerHeader{binary.LittleEndian.Uint64(b), status(b[8])}, nil
}

// remoteError is what a method has failed with.
type remoteError string

func (e remoteError) Error() string { return "the server says: " + string(e) }

// statusOf says how a call ends that a method has ended with err.
func statusOf(err error) status {
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return failed
}

// err is what the caller gets, text being the data of the answer.
func (s status) err(text []byte) error {
	switch s {
	case succeeded:
		return nil
	case late:
		return context.DeadlineExceeded
	}
	return remoteError(text)
}
