package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestHeaders(t *testing.T) {
	call := callHeader{call: 1 << 40, limit: time.Second, method: "upper"}
	if got, err := parseCall(call.bytes()); got != call || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, call)
	}
	answer := answerHeader{call: 1 << 40, status: late}
	if got, err := parseAnswer(answer.bytes()); got != answer || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, answer)
	}
	for n := range len(answer.bytes()) {
		if got, err := parseAnswer(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were taken for %+v", n, got)
		}
		if got, err := parseCall(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were taken for %+v", n, got)
		}
	}
}

// TestStatus: the caller gets the error that the method has returned.
func TestStatus(t *testing.T) {
	other := errors.New("other")
	for _, tc := range []struct{ err, want error }{
		{nil, nil},
		{other, remoteError("other")},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), context.DeadlineExceeded},
	} {
		text := ""
		if tc.err != nil {
			text = tc.err.Error()
		}
		if got := statusOf(tc.err).err([]byte(text)); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}
