// Package getopt reads a command line the way the C tools do (glibc's getopt
// and getopt_long): short options may be clustered ("-vf"), a value may follow
// its option directly or as the next word ("-n100", "-n 100"), long options
// take "--name=value" or "--name value", and options and operands may come in
// any order. "--" ends the options; "-" alone is an operand.
package getopt

import (
	"fmt"
	"strings"
)

// Long is a long option.
type Long struct {
	Name     string
	Value    bool   // the option requires a value
	OneDash  bool   // one dash also introduces the option: "-name"
	Returned string // the name that Next returns; empty for Name
}

// Parser walks over a command line.
type Parser struct {
	short    string
	long     []Long
	args     []string
	cluster  string // rest of the cluster being read
	operands []string
}

// New returns a Parser for args, which excludes the program's name. short lists
// the one-letter options; a letter followed by a colon requires a value.
func New(args []string, short string, long []Long) *Parser {
	return &Parser{short: short, long: long, args: args}
}

// Next returns the next option, by its letter or long name, with its value. An empty option marks
// the end of the options: Operands has the remaining words. An unknown option, or one without its
// required value, is an error.
func (p *Parser) Next() (opt, value string, err error) {
	if p.cluster != "" {
		return p.letter()
	}
	for len(p.args) > 0 {
		word := p.args[0]
		p.args = p.args[1:]
		switch {
		case word == "--":
			p.operands = append(p.operands, p.args...)
			p.args = nil
		case strings.HasPrefix(word, "--"):
			return p.name(word[2:], word)
		case len(word) > 1 && word[0] == '-':
			if l := p.find(word[1:]); l != nil && l.OneDash {
				return p.name(word[1:], word)
			}
			p.cluster = word[1:]
			return p.letter()
		default:
			p.operands = append(p.operands, word)
		}
	}
	return "", "", nil
}

// Operands returns the words that are not options, in order. The list is complete once Next has
// returned an empty option.
func (p *Parser) Operands() []string { return p.operands }

func (p *Parser) letter() (opt, value string, err error) {
	opt, p.cluster = p.cluster[:1], p.cluster[1:]
	i := strings.Index(p.short, opt)
	if i < 0 || opt == ":" {
		p.cluster = ""
		return "", "", fmt.Errorf("invalid option -- '%s'", opt)
	}
	if i+1 == len(p.short) || p.short[i+1] != ':' {
		return opt, "", nil
	}
	if p.cluster != "" {
		value, p.cluster = p.cluster, ""
		return opt, value, nil
	}
	if len(p.args) == 0 {
		return "", "", fmt.Errorf("option requires an argument -- '%s'", opt)
	}
	value, p.args = p.args[0], p.args[1:]
	return opt, value, nil
}

func (p *Parser) name(body, word string) (opt, value string, err error) {
	name, value, given := strings.Cut(body, "=")
	l := p.find(name)
	if l == nil && body == Help {
		return Help, "", nil
	}
	if l == nil {
		return "", "", fmt.Errorf("unrecognized option '%s'", word)
	}
	switch {
	case given && !l.Value:
		return "", "", fmt.Errorf("option '--%s' doesn't allow an argument", name)
	case l.Value && !given && len(p.args) == 0:
		return "", "", fmt.Errorf("option '--%s' requires an argument", name)
	case l.Value && !given:
		value, p.args = p.args[0], p.args[1:]
	}
	if l.Returned != "" {
		return l.Returned, value, nil
	}
	return l.Name, value, nil
}

// Help is the name of the option --help, which every tool accepts even if it does not list it: the
// tool prints its usage and exits with status 0.
const Help = "help"

func (p *Parser) find(body string) *Long {
	name, _, _ := strings.Cut(body, "=")
	for i := range p.long {
		if p.long[i].Name == name {
			return &p.long[i]
		}
	}
	return nil
}
