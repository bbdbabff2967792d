package doccheck

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// intro is the text above the tables.
const intro = `# Settings

This file is made by the code: ` + "`go test ./internal/doccheck -run TestSettings -update`" + `
writes it. ` + "`ucx_info -cf`" + ` prints the same with the values that hold where it runs.

A setting is an environment variable, or a line NAME=VALUE in a file ` + "`ucx.conf`" + `, with the name that
the variable has. It is read when a context is made. The files are, the later the stronger:
` + "`/etc/ucx/ucx.conf`, `../etc/ucx/ucx.conf`" + ` from the directory of the program (in C: of the library), and
` + "`ucx.conf` in `$HOME`, in `$UCX_CONFIG_DIR`" + ` and in the working directory. The environment counts more than files; a name with the prefix that
the program gives to ` + "`ucp.ReadConfig`" + ` counts more than one without; ` + "`Config.Modify`" + ` counts most. A
value that cannot be read is an error of ` + "`ucp.NewContext`" + `.

Names and values are those of C UCX where C has the setting. Where a row has several names, each
is for one transport. A name in brackets sets several of them, or is another spelling of one; it
counts less.
`

// subjects are the sections of the document, in order.
var subjects = []string{
	"General", "Protocols", "Limits and security", "Loopback", "Shared memory",
	"TCP and TLS", "RDMA", "Connection managers", "Logging",
}

// rules assign settings to sections: the first rule whose pattern matches the name applies.
var rules = []struct {
	names   *regexp.Regexp
	subject string
}{
	{regexp.MustCompile(`^(NET|SHM|ACC|SELF)_DEVICES$`), "General"},
	{regexp.MustCompile(`^(LOG|WARN|PRINT|PROTO_INFO)`), "Logging"},
	{regexp.MustCompile(`^(SOCKADDR|CM|SA_DATA|LISTENER|TCP_CM|RDMA_CM)_`), "Connection managers"},
	{regexp.MustCompile(`^(IB|RC|UD|DC|MLX5|VERBS)_`), "RDMA"},
	{regexp.MustCompile(`^(TCP|TLS)_`), "TCP and TLS"},
	{regexp.MustCompile(`^(POSIX|SYSV|CMA|SHM|SM|MM)_`), "Shared memory"},
	{regexp.MustCompile(`^SELF_`), "Loopback"},
	{regexp.MustCompile(`^(MAX_UNEXP|STREAM_MAX|CHECK_SOURCE|CLOSED|TOKEN)`), "Limits and security"},
	{regexp.MustCompile(`^(PROTO|BCOPY|ZCOPY|RNDV|RMA|RKEY|EAGER|FENCE|ATOMIC|ADAPTIVE|MULTI|SINGLE_NET)`), "Protocols"},
	{regexp.MustCompile(`^(MAX_\w+_RAILS|MIN_\w+_CHUNK)`), "Protocols"},
	{regexp.MustCompile(``), "General"},
}

// subject returns the section of a setting.
func subject(s setting) string {
	name := strings.TrimPrefix(s.names[0], "UCX_")
	for _, r := range rules {
		if r.names.MatchString(name) {
			return r.subject
		}
	}
	return ""
}

// settingsDocument returns the text of docs/settings.md.
func settingsDocument(list []setting) string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString(kindTable(list))
	for _, title := range subjects {
		rows := ""
		for _, s := range list {
			if subject(s) == title {
				rows += settingRow(s)
			}
		}
		if rows != "" {
			fmt.Fprintf(&b, "\n## %s\n\n| Name | Default | Values | Meaning |\n|---|---|---|---|\n%s", title, rows)
		}
	}
	return b.String()
}

func settingRow(s setting) string {
	names := code(s.names...)
	if len(s.others) > 0 {
		names += " (" + code(s.others...) + ")"
	}
	value := "(empty)"
	if s.value != "" {
		value = code(plainValue(s.value, s.syntax))
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", names, value, values(s.syntax), markdown(s.doc))
}

// code quotes words as code, separated by commas.
func code(words ...string) string {
	return "`" + strings.ReplaceAll(strings.Join(words, "`, `"), "|", `\|`) + "`"
}

var (
	special  = regexp.MustCompile("[|*<>`\\\\]")
	variable = regexp.MustCompile(`UCX_[A-Z0-9]\w*(=\w+)?`)
)

// markdown returns a text for a cell of a table, with the names of settings as code.
func markdown(s string) string {
	return variable.ReplaceAllString(special.ReplaceAllString(s, `\$0`), "`$0`")
}

var (
	micros   = regexp.MustCompile(`^(\d+)\.00us$`)
	zeros    = regexp.MustCompile(`\.00([A-Z])`)
	decimals = regexp.MustCompile(`\.?0+$`)
)

// plainValue returns a default as people write it: listings have times in microseconds and a fixed
// number of decimals.
func plainValue(value, syntax string) string {
	switch m := micros.FindStringSubmatch(value); {
	case m != nil:
		n, err := strconv.Atoi(m[1])
		switch {
		case err != nil:
			return value
		case n > 0 && n%1_000_000 == 0:
			return fmt.Sprintf("%ds", n/1_000_000)
		case n > 0 && n%1000 == 0:
			return fmt.Sprintf("%dms", n/1000)
		}
		return m[1] + "us"
	case syntax == "floating point number" && strings.Contains(value, "."):
		return decimals.ReplaceAllString(value, "")
	}
	return zeros.ReplaceAllString(value, "$1")
}

// kinds are names for frequent, long syntaxes, identified by their beginning and by whether they
// have ranges.
var kinds = []struct {
	kind, begin string
	ranges      bool // whether the syntax mentions ranges
}{
	{"size", "memory units:", false},
	{"time", "time value:", false},
	{"bandwidth", "bandwidth value:", false},
	{"count", "unsigned long:", false},
	{"list with ranges", "comma-separated list (", true},
	{"list", "comma-separated list (", false},
}

// kind returns the name of a syntax, empty if it has none.
func kind(syntax string) string {
	for _, k := range kinds {
		if strings.HasPrefix(syntax, k.begin) && strings.Contains(syntax, "[start-end]") == k.ranges &&
			!strings.Contains(syntax, "intra:") {
			return k.kind
		}
	}
	return ""
}

// kindTable explains the names of syntaxes.
func kindTable(list []setting) string {
	text := "\nThe column Values has these words beside the values themselves:\n\n| Word | Syntax |\n|---|---|\n"
	for _, k := range kinds {
		for _, s := range list {
			if kind(s.syntax) == k.kind {
				text += fmt.Sprintf("| %s | %s |\n", k.kind, markdown(s.syntax))
				break
			}
		}
	}
	return text
}

var choice = regexp.MustCompile(`^[<\[]([^<>\[\]]+\|[^<>\[\]]+)[>\]]$`)

// values describes the possible values of a setting: the name of its syntax, the words of a choice,
// or the syntax itself.
func values(syntax string) string {
	if k := kind(syntax); k != "" {
		return k
	}
	if m := choice.FindStringSubmatch(syntax); m != nil {
		return code(strings.Split(m[1], "|")...)
	}
	return markdown(syntax)
}
