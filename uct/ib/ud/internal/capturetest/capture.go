//go:build linux

package capturetest

import (
	"embed"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata
var files embed.FS

// Releases are those that were captured.
var Releases = []string{"1.13.1", "1.22.0"}

// Session is what one run of two processes sent.
type Session struct {
	Release string
	Title   string // of the section
	Name    string // of the run
	Ops     string // what was run, with its settings
	Packets []Packet
}

// Packet is one datagram, in the order of capture at the server. All that are here
// have left their machine; what netem dropped behind that is not.
type Packet struct {
	Line       int // in its file
	At         time.Duration
	FromServer bool
	DestQPN    uint32
	SrcQPN     uint32
	Solicited  bool
	Data       []byte // from the header of UD on; where bytes were left out, zeros
	Kept       int    // so many bytes at the beginning of Data are real
	Text       string // what it is
}

// Sessions are all of a release's.
func Sessions(release string) ([]Session, error) {
	text, err := files.ReadFile("testdata/ud-" + release + ".txt")
	if err != nil {
		return nil, err
	}
	var all []Session
	title := ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "":
		case strings.HasPrefix(line, "## "):
			name, ops, _ := strings.Cut(line[3:], ": ")
			all = append(all, Session{Release: release, Title: title, Name: name, Ops: ops})
		case strings.HasPrefix(line, "# "):
			title = line[2:]
		default:
			p, err := parse(line)
			if err != nil {
				return nil, fmt.Errorf("ud-%s.txt:%d: %w", release, i+1, err)
			}
			p.Line = i + 1
			s := &all[len(all)-1]
			s.Packets = append(s.Packets, p)
		}
	}
	return all, nil
}

// Find is the session of a name.
func Find(release, name string) (Session, error) {
	all, err := Sessions(release)
	if err != nil {
		return Session{}, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return Session{}, fmt.Errorf("no session %q of %s", name, release)
}

// parse reads a line: "1.399 C>S qp 13 psn 4 SE sqp 13 | 0000..48 ; text".
func parse(line string) (p Packet, err error) {
	head, rest, ok := strings.Cut(line, " | ")
	bytes, text, ok2 := strings.Cut(rest, " ; ")
	f := strings.Fields(head)
	if !ok || !ok2 || len(f) < 8 {
		return p, fmt.Errorf("not a packet: %s", line)
	}
	at, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return p, err
	}
	p.At, p.FromServer, p.Text = time.Duration(at*1e9), f[1] == "S>C", text
	p.Solicited = f[6] == "SE"
	for i, dst := range map[int]*uint32{3: &p.DestQPN, len(f) - 1: &p.SrcQPN} {
		n, err := strconv.ParseUint(f[i], 16, 24)
		if err != nil {
			return p, err
		}
		*dst = uint32(n)
	}
	hexed, all, cut := strings.Cut(bytes, "..")
	if p.Data, err = hex.DecodeString(hexed); err != nil {
		return p, err
	}
	p.Kept = len(p.Data)
	if cut {
		n, err := strconv.Atoi(all)
		if err != nil || n < len(p.Data) {
			return p, fmt.Errorf("bad length: %s", line)
		}
		p.Data = append(p.Data, make([]byte, n-len(p.Data))...)
	}
	return p, nil
}
