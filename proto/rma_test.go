package proto

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/fuzztest"
	"github.com/ucx-go/ucx/ucs"
)

var rmaCodecs = map[string]recode{
	"PUT": func(b []byte) ([]byte, error) {
		h, data, err := ParsePut(b)
		return append(h.Append(nil), data...), err
	},
	"GET_REQ": func(b []byte) ([]byte, error) {
		h, err := ParseGetReq(b)
		return h.Append(nil), err
	},
	"GET_REP": func(b []byte) ([]byte, error) {
		h, data, err := ParseGetRep(b)
		return append(h.Append(nil), data...), err
	},
	"CMPL": func(b []byte) ([]byte, error) {
		h, err := ParseCmpl(b)
		return h.Append(nil), err
	},
}

func TestRMAGolden(t *testing.T) { checkGolden(t, "rma.txt", rmaCodecs) }

func TestRMAFields(t *testing.T) {
	req, err := ParseGetReq(readGolden(t, "rma.txt", "GET_REQ")[0].bytes)
	if err != nil {
		t.Fatal(err)
	}
	rep, _, err := ParseGetRep(readGolden(t, "rma.txt", "GET_REP")[0].bytes)
	if err != nil || rep.ReqID != req.ReqID || req.Length != 8 || req.EpID == 0 || req.MemType != 0 {
		t.Errorf("%+v answers %+v, %v", rep, req, err)
	}
	put, data, err := ParsePut(readGolden(t, "rma.txt", "PUT")[0].bytes)
	if want := (Put{Address: 0x7f7150653000, EpID: 0x7f714f6a0000}); err != nil || put != want || len(data) != 8 {
		t.Errorf("%+v, %v, want %+v", put, err, want)
	}
}

func TestRMAPut(t *testing.T) {
	checkPut(t, PutSize, Put{1, 2, 3})
	checkPut(t, GetReqSize, GetReq{1, 2, 3, 4, 5})
	checkPut(t, GetRepSize, GetRep{1, 2})
	checkPut(t, CmplSize, Cmpl{1})
	checkTruncation(t, PutSize, func(b []byte) error { _, _, err := ParsePut(b); return err })
	checkTruncation(t, GetReqSize, func(b []byte) error { _, err := ParseGetReq(b); return err })
	checkTruncation(t, GetRepSize, func(b []byte) error { _, _, err := ParseGetRep(b); return err })
	checkTruncation(t, CmplSize, func(b []byte) error { _, err := ParseCmpl(b); return err })
}

func TestRMARefuses(t *testing.T) {
	const top = ^uint64(0)
	for _, tc := range []struct {
		name  string
		parse func() error
	}{
		{"put past the end of memory", func() error { _, _, err := ParsePut(append(Put{Address: top}.Append(nil), 1, 2)); return err }},
		{"get past the end of memory", func() error { _, err := ParseGetReq(GetReq{Address: top, Length: 2}.Append(nil)); return err }},
		{"get of a negative length", func() error { _, err := ParseGetReq(GetReq{Length: -1}.Append(nil)); return err }},
		{"reply that wraps around", func() error { _, _, err := ParseGetRep(append(GetRep{Offset: maxSize}.Append(nil), 1)); return err }},
	} {
		if err := tc.parse(); !errors.Is(err, ucs.ErrIO) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func FuzzPut(f *testing.F) {
	seed(f, "rma.txt", "PUT")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, rmaCodecs["PUT"]) })
}

func FuzzGetReq(f *testing.F) {
	seed(f, "rma.txt", "GET_REQ")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b[:min(len(b), GetReqSize)], rmaCodecs["GET_REQ"]) })
}

func FuzzGetRep(f *testing.F) {
	seed(f, "rma.txt", "GET_REP")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b, rmaCodecs["GET_REP"]) })
}

func FuzzCmpl(f *testing.F) {
	seed(f, "rma.txt", "CMPL")
	fuzztest.Run(f, func(t *testing.T, b []byte) { checkExact(t, b[:min(len(b), CmplSize)], rmaCodecs["CMPL"]) })
}
