package config

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// PrintFlags say what Set.Write prints, with the bits of ucs_config_print_flags_t.
type PrintFlags uint32

// What Set.Write prints.
const (
	PrintConfig         PrintFlags = 1 << 0 // print the settings
	PrintHeader         PrintFlags = 1 << 1 // print a banner with the title
	PrintDoc            PrintFlags = 1 << 2 // print the help text of each setting
	PrintHidden         PrintFlags = 1 << 3 // print aliases of settings too
	PrintCommentDefault PrintFlags = 1 << 4 // print a # before settings with their default value
)

// Write prints settings as C UCX's ucx_info does, in lines NAME=value. It prints the sections with
// the given names under the title, or, if no name is given, all sections, each under its own title.
func (s *Set) Write(w io.Writer, title string, flags PrintFlags, names ...string) error {
	return s.write(w, title, flags, "", names)
}

// WriteMatching is like Write, for the settings of all sections whose names, including UCX_,
// contain the text part.
func (s *Set) WriteMatching(w io.Writer, flags PrintFlags, part string) error {
	return s.write(w, "", flags, part, nil)
}

func (s *Set) write(w io.Writer, title string, flags PrintFlags, part string, names []string) error {
	out := bufio.NewWriter(w)
	if flags&(PrintConfig|PrintHeader) == PrintHeader {
		writeBanner(out, title)
		return out.Flush()
	}
	if flags&PrintConfig == 0 {
		return nil
	}
	if flags&PrintDoc != 0 && len(names) == 0 {
		fmt.Fprint(out, "# UCX library configuration file\n# Uncomment to modify values\n\n")
	}
	for _, sec := range sections() {
		if len(names) > 0 && !slices.Contains(names, sec.Name) {
			continue
		}
		var text bytes.Buffer
		if err := s.writeSection(&text, sec, flags, part); err != nil {
			return err
		}
		if part != "" && text.Len() == 0 {
			continue
		}
		if flags&PrintHeader != 0 {
			if len(names) == 0 {
				writeBanner(out, sec.Title+" configuration")
			} else {
				writeBanner(out, title)
				flags &^= PrintHeader
			}
		}
		text.WriteTo(out) // out keeps errors
	}
	return out.Flush()
}

func writeBanner(w io.Writer, title string) {
	fmt.Fprintf(w, "#\n# %s\n#\n\n", title)
}

func (s *Set) writeSection(w io.Writer, sec *section, flags PrintFlags, part string) error {
	v := reflect.New(sec.typ).Elem()
	if err := s.load(sec, v); err != nil {
		return err
	}
	for i := range sec.fields {
		f := &sec.fields[i]
		s.writeField(w, f, v.FieldByIndex(f.index), f.name, flags, part)
		if flags&PrintHidden != 0 {
			for _, a := range f.aliases {
				s.writeField(w, f, v.FieldByIndex(f.index), a, flags, part)
			}
		}
	}
	return nil
}

// writeField prints setting f under one of its names, in the layout of
// ucs_config_parser_print_field. A name that does not contain the text part is skipped.
func (s *Set) writeField(w io.Writer, f *field, v reflect.Value, name string, flags PrintFlags, part string) {
	env := defaultPrefix
	if s != nil && s.prefix != "" {
		env = s.prefix
	}
	own := len(f.prefixes) - 1
	if !strings.Contains(env+f.prefixes[own]+name, part) {
		return
	}
	if flags&PrintDoc != 0 {
		fmt.Fprintln(w, "#")
		for line := range strings.SplitSeq(f.doc, "\n") {
			writeWrapped(w, line)
		}
		syn := syntax(v)
		if syn == "" {
			syn = "string"
		}
		fmt.Fprintf(w, "#\n# %-10s %s\n", "syntax:", syn)
		if name != f.name {
			fmt.Fprintf(w, "# %-10s %s%s\n", "alias of:", env, f.fullName())
		}
		if own > 0 {
			fmt.Fprintf(w, "# %-10s", "inherits:")
			for i := own - 1; i >= 0; i-- {
				fmt.Fprintf(w, " %s%s%s", env, f.prefixes[i], name)
				if i > 0 {
					fmt.Fprint(w, ",")
				}
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, "#")
	}
	if flags&PrintCommentDefault != 0 && s.effective(f).origin.Kind == FromDefault {
		fmt.Fprint(w, "# ")
	}
	fmt.Fprintf(w, "%s%s%s=%s\n", env, f.prefixes[own], name, format(v))
	if flags&PrintDoc != 0 {
		fmt.Fprintln(w)
	}
}

// docWidth is the column at which lines of help text wrap.
const docWidth = 80

// writeWrapped prints a line of help text as comments, wrapped between words.
func writeWrapped(w io.Writer, line string) {
	col := 0
	for word := range strings.FieldsSeq(line) {
		if col > 0 && col+1+len(word) > docWidth {
			fmt.Fprintln(w)
			col = 0
		}
		if col == 0 {
			col, _ = fmt.Fprint(w, "# ", word)
		} else {
			n, _ := fmt.Fprint(w, " ", word)
			col += n
		}
	}
	if col == 0 {
		fmt.Fprint(w, "#")
	}
	fmt.Fprintln(w)
}
