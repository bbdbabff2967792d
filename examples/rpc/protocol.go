package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucp"
)

// Ids of active messages. The header of a call is a callHeader, and its data the arguments. The
// header of an answer is an answerHeader, and its data the result or the text of an error.
const (
	idCall   = 1
	idAnswer = 2
)

// longest is the maximum length of arguments and of results, in bytes.
const longest = 64 << 20

// receive returns the data of a message, and consumes the message. Even if ctx ends it waits for
// offered data until the endpoint to the sender ends, see ucp.AMMessage.RecvWait.
func receive(ctx context.Context, m *ucp.AMMessage) ([]byte, error) {
	if m.Len() > longest {
		m.Release()
		return nil, fmt.Errorf("a message of %d bytes, %d are the limit", m.Len(), longest)
	}
	data := make([]byte, m.Len())
	_, err := m.RecvWait(ctx, data)
	return data, err
}

// callHeader is the header of a call.
type callHeader struct {
	call   uint64        // number of the call, which the caller chooses
	limit  time.Duration // time left until the caller's deadline, 0 without one
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

// answerHeader is the header of an answer: the number of the call, and its status.
type answerHeader struct {
	call   uint64
	status status
}

// status is the result of a call.
type status byte

const (
	succeeded status = iota
	failed
	late // the deadline has passed
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

// remoteError is the text of an error that a method has returned on the server.
type remoteError string

func (e remoteError) Error() string { return "the server says: " + string(e) }

// statusOf returns the status of a call whose method has returned err.
func statusOf(err error) status {
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, context.DeadlineExceeded):
		return late
	}
	return failed
}

// err returns the error that the caller gets, or nil. The parameter text is the data of the answer.
func (s status) err(text []byte) error {
	switch s {
	case succeeded:
		return nil
	case late:
		return context.DeadlineExceeded
	}
	return remoteError(text)
}
