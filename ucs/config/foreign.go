package config

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// foreignNames collects names of settings of C UCX that have no effect in this library, grouped by
// the reason why.
type foreignNames struct {
	reasons []string            // the reasons, in order of appearance
	names   map[string][]string // the names for each reason
}

// foreignText is the text of the log message that lists names of settings without effect.
const foreignText = "settings of C UCX without effect here (UCX_WARN_UNUSED_ENV_VARS=n hides this)"

// Bounds of the warning that lists settings without effect. They keep a line of the log, with its
// prefix, at some 400 characters.
const (
	maxForeign = 210 // most characters of the list
	maxSample  = 2   // most names with the same reason, if not all names fit
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

// warn logs the names, if there are any, in one line. If some do not fit, it also lists all of them
// at level info.
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

// list logs all names at level info, one line for each reason.
func (f *foreignNames) list() {
	for _, why := range f.reasons {
		log.Info(foreignText, zap.String("settings", strings.Join(f.names[why], ", ")+": "+why))
	}
}

// sample returns a list of the names, grouped by reason in the order of telling: all names if they
// fit into maxForeign characters, else some names for each reason. left is the number of names left
// out.
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

// length returns the length, in bytes, of a list of all names with their reasons.
func (f *foreignNames) length() (n int) {
	for _, why := range f.reasons {
		n += len(strings.Join(f.names[why], ", ")) + len(": ") + len(why) + len("; ")
	}
	return n
}

// telling returns the reasons with the most surprising ones first: in the order of the table
// foreign, but with noGPUs and noTransport last. These two surprise few users, because the
// project's documents begin with the hardware and the transports that are not supported.
func (f *foreignNames) telling() []string {
	rank := func(why string) int {
		k := slices.IndexFunc(noEffectSettings, func(g reason) bool { return g.why == why })
		if why == noGPUs || why == noTransport {
			k += len(noEffectSettings)
		}
		return k
	}
	list := slices.Clone(f.reasons)
	slices.SortFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}
