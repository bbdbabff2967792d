package config

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// foreignNames are settings without effect by the reason for that.
type foreignNames struct {
	reasons []string // in the order in which they came
	names   map[string][]string
}

// foreignText introduces them in the log.
const foreignText = "settings of C UCX without effect here (UCX_WARN_UNUSED_ENV_VARS=n hides this)"

// Bounds of the warning: a line of the log is of some 400 characters, with what stands in front.
const (
	maxForeign = 210 // characters
	maxSample  = 2   // names with the same reason, where not all fit
)

func (f *foreignNames) add(u UnknownName) {
	if f.names == nil {
		f.names = make(map[string][]string)
	}
	if f.names[u.NoEffect] == nil {
		f.reasons = append(f.reasons, u.NoEffect)
	}
	f.names[u.NoEffect] = append(f.names[u.NoEffect], defaultPrefix+u.Name)
}

// warn logs the names, if there are any, in one line, and those that it has no room for at level
// info.
func (f *foreignNames) warn() {
	text, left := f.sample()
	if text == "" {
		return
	}
	if left > 0 {
		text += fmt.Sprintf("; and %d more: UCX_LOG_LEVEL=info lists them", left)
	}
	log.Warn(foreignText, zap.String("settings", text))
	if left > 0 {
		f.list()
	}
}

// list logs the names at level info, those with the same reason in one line.
func (f *foreignNames) list() {
	for _, why := range f.reasons {
		log.Info(foreignText, zap.String("settings", strings.Join(f.names[why], ", ")+": "+why))
	}
}

// sample lists the names, with the reason behind those that have the same: all if they fit, else
// some of each reason, those first that tell most. left is how many are missing.
func (f *foreignNames) sample() (text string, left int) {
	var b strings.Builder
	all := f.length() <= maxForeign
	for _, why := range f.telling() {
		names := f.names[why]
		n := len(names)
		if !all {
			n = min(n, maxSample)
		}
		item := strings.Join(names[:n], ", ") + ": " + why
		for !all && n > 0 && b.Len() > 0 && b.Len()+len("; ")+len(item) > maxForeign {
			n--
			item = strings.Join(names[:n], ", ") + ": " + why
		}
		left += len(names) - n
		if n == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		b.WriteString(item)
	}
	return b.String(), left
}

// length is that of a list of all names with their reasons.
func (f *foreignNames) length() (n int) {
	for _, why := range f.reasons {
		n += len(strings.Join(f.names[why], ", ")) + len(": ") + len(why) + len("; ")
	}
	return n
}

// telling returns the reasons in the order of the table foreign, but last those that nobody is
// surprised by: the documents begin with the hardware and the transports that are not here.
func (f *foreignNames) telling() []string {
	rank := func(why string) int {
		k := slices.IndexFunc(foreign, func(g reason) bool { return g.why == why })
		if why == noGPUs || why == noTransport {
			k += len(foreign)
		}
		return k
	}
	list := slices.Clone(f.reasons)
	slices.SortFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}
