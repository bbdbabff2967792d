package main

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestSlot(t *testing.T) {
	want := entry{version: 2, key: []byte("key"), value: []byte(strings.Repeat("v", slotSize-headSize-3))}
	if err := want.check(); err != nil {
		t.Fatal(err)
	}
	b := want.bytes()
	got, err := parseSlot(b)
	if err != nil || got.version != want.version || string(got.key) != "key" || string(got.value) != string(want.value) {
		t.Errorf("%+v, %v", got, err)
	}
	if e, err := parseSlot(make([]byte, slotSize)); err != nil || e.version != 0 {
		t.Errorf("a free slot: %+v, %v", e, err)
	}
	for k := range b {
		b[k] ^= 1 // also makes the version odd
		if _, err := parseSlot(b); err != errTorn {
			t.Errorf("byte %d is wrong: %v", k, err)
		}
		b[k] ^= 1
	}
	for _, e := range []entry{
		{value: []byte("value")},
		{key: make([]byte, longestKey+1)},
		{key: []byte("key"), value: make([]byte, slotSize-headSize-2)},
	} {
		if err := e.check(); err != errLength {
			t.Errorf("a key of %d bytes, a value of %d: %v", len(e.key), len(e.value), err)
		}
	}
	// As another client may have written it.
	binary.LittleEndian.PutUint16(b[18:], slotSize)
	binary.LittleEndian.PutUint64(b[8:], checksum(b))
	if _, err := parseSlot(b); err != errLength {
		t.Errorf("a value longer than the slot: %v", err)
	}
}
