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

// Releases are the releases of C UCX that were captured.
var Releases = []string{"1.13.1", "1.22.0"}

// Session holds the packets that two processes exchanged in one run.
type Session struct {
	Release string
	Title   string // title of the section in the testdata file
	Name    string // name of the run
	Ops     string // operations of the run, and its settings
	Packets []Packet
}

// Packet is one datagram. Packets are in the order of their capture at the server. All of them have
// left their machine; packets that netem dropped after that are not included.
type Packet struct {
	Line       int           // in the testdata file
	At         time.Duration // since the beginning of the session
	FromServer bool
	DestQPN    uint32
	SrcQPN     uint32
	Solicited  bool
	Data       []byte // from the UD header on; bytes that the file omits are zero
	Kept       int    // number of bytes at the beginning of Data that the file has
	Text       string // the packet decoded, for error messages
}

// Sessions returns all sessions of a release.
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

// Find returns the session of a release with a given name.
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

// parse parses the line of a packet: "1.399 C>S qp 13 psn 4 SE sqp 13 | 0000..48 ; text".
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
