package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucpnet"
)

func TestFetch(t *testing.T) {
	dir := t.TempDir()
	want := bytes.Repeat([]byte("a line of text\n"), 1<<16)
	if err := os.WriteFile(filepath.Join(dir, "file"), want, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := ucpnet.Listen("ucp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serveFiles(ctx, l, dir) }()
	url := "http://" + l.Addr().String()

	var got bytes.Buffer
	if err := fetch(ctx, url+"/file", &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(want), err)
	}
	if err := fetch(ctx, url+"/nothing", &got); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("what is not there: %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
