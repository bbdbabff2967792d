package config

import (
	"errors"
	"slices"
	"strings"
)

// Transports is the value of UCX_TLS: "all", a list of transports and aliases of groups of
// transports, or a list of excluded ones after ^. A backslash before a name means the transport of
// exactly that name and no alias. The suffix :aux means that the transport may only be auxiliary:
// it may connect another transport, as a datagram transport does, but not carry data itself. The
// list is interpreted as by ucp_is_resource_in_transports_list in C UCX 1.22.0,
// src/ucp/core/ucp_context.c.
type Transports struct {
	list List
}

// Use says what a transport may be used for.
type Use uint8

// Permitted uses of a transport.
const (
	UseNone      Use = iota
	UseAuxiliary     // only to connect other transports
	UseAny
)

const auxSuffix = ":aux"

// transportAliases are the groups of transports in C UCX's list ucp_tl_aliases, whether or not this
// library has the transports.
var transportAliases = []struct {
	name    string
	members []string
}{
	{"mm", []string{"posix", "sysv", "xpmem"}},
	{"sm", []string{"posix", "sysv", "xpmem", "knem", "cma"}},
	{"shm", []string{"posix", "sysv", "xpmem", "knem", "cma"}},
	{"ib", []string{"rc_verbs", "ud_verbs", "rc_mlx5", "ud_mlx5", "dc_mlx5",
		"gga_mlx5", "ud_mlx5:aux", "ud_verbs:aux", "srd", "rc_gda"}},
	{"ud_v", []string{"ud_verbs"}},
	{"ud_x", []string{"ud_mlx5"}},
	{"ud", []string{"ud_mlx5", "ud_verbs"}},
	{"rc_v", []string{"rc_verbs", "ud_verbs:aux"}},
	{"rc_x", []string{"rc_mlx5", "ud_mlx5:aux"}},
	{"rc", []string{"rc_mlx5", "ud_mlx5:aux", "rc_verbs", "ud_verbs:aux"}},
	{"dc", []string{"dc_mlx5", "ud_mlx5:aux"}},
	{"dc_x", []string{"dc_mlx5", "ud_mlx5:aux"}},
	{"ugni", []string{"ugni_smsg", "ugni_udt:aux", "ugni_rdma"}},
	{"cuda", []string{"cuda_copy", "cuda_ipc", "gdr_copy"}},
	{"rocm", []string{"rocm_copy", "rocm_ipc", "rocm_gdr"}},
	{"ze", []string{"ze_copy", "ze_ipc", "ze_gdr"}},
	{"gaudi", []string{"gaudi_gdr"}},
	{"gga", []string{"gga_mlx5"}},
}

var errEmptyList = errors.New("the list is empty")

// ParseConfig implements Value.
func (t *Transports) ParseConfig(s string) error {
	var l List
	if err := l.ParseConfig(s); err != nil {
		return err
	}
	if l.Mode != ListAll && len(l.Items) == 0 {
		return errEmptyList
	}
	t.list = l
	return nil
}

// String implements Value.
func (t Transports) String() string { return t.list.String() }

// ConfigSyntax implements Syntaxer.
func (Transports) ConfigSyntax() string {
	return "comma-separated list (prepend '^' for negation, " +
		`or set to "all" for including all items) of: string`
}

// Use returns what the transport of that name may be used for.
func (t Transports) Use(name string) Use {
	if t.list.Mode == ListAll {
		return UseAny
	}
	m := t.mentions(name)
	if t.list.Mode == ListAllow {
		switch {
		case m.name:
			return UseAny
		case m.aux || m.auxOfAlias:
			return UseAuxiliary
		}
		return UseNone
	}
	switch {
	case !m.name:
		return UseAny
	case !isAuxiliary(name) || m.aux || m.bothOfAlias:
		return UseNone
	}
	// The transport is excluded, but others may depend on it.
	return UseAuxiliary
}

// mention says how a list refers to a transport.
type mention struct {
	name        bool // the list has its name, or an alias of which it is a member
	aux         bool // the list has its name, or such an alias, with the suffix :aux
	auxOfAlias  bool // the list has an alias of which it is an auxiliary transport
	bothOfAlias bool // the list has an alias of which it is both member and auxiliary
}

func (t Transports) mentions(name string) mention {
	m := mention{
		name: t.lists(name) || t.lists(`\`+name),
		aux:  t.lists(name+auxSuffix) || t.lists(`\`+name+auxSuffix),
	}
	for _, alias := range transportAliases {
		member, serves := slices.Contains(alias.members, name), slices.Contains(alias.members, name+auxSuffix)
		if t.lists(alias.name) {
			m.name = m.name || member
			m.auxOfAlias = m.auxOfAlias || serves
			m.bothOfAlias = m.bothOfAlias || member && serves
		}
		if t.lists(alias.name + auxSuffix) {
			m.aux = m.aux || member
		}
	}
	return m
}

// lists reports whether an item of the list has exactly this spelling.
func (t Transports) lists(item string) bool { return slices.Contains(t.list.Items, item) }

// Missing returns the items of an allow list that select none of the available transports. They are
// most likely misspelled, or not available on this machine.
func (t Transports) Missing(available []string) []string {
	if t.list.Mode != ListAllow {
		return nil
	}
	var missing []string
	for _, item := range t.list.Items {
		if !slices.ContainsFunc(available, TransportItem(item).Selects) {
			missing = append(missing, item)
		}
	}
	return missing
}

// otherTransports holds the names of C UCX's transports that no alias contains, and "all".
var otherTransports = []string{"self", "tcp", "all"}

// UnknownTransports returns the items, in a list with or without ^, that are neither an alias nor
// the name of a transport of C UCX or one in available. They are most likely misspelled. The field
// Nearest of a result is a known name that differs little from the item, if there is one.
func (t Transports) UnknownTransports(available []string) (list []UnknownName) {
	if t.list.Mode == ListAll {
		return nil
	}
	known := make(map[string]bool)
	for _, name := range slices.Concat(otherTransports, available) {
		known[name] = true
	}
	for _, alias := range transportAliases {
		known[alias.name] = true
		for _, name := range alias.members {
			known[strings.TrimSuffix(name, auxSuffix)] = true
		}
	}
	for _, item := range t.list.Items {
		name := TransportItem(item).name()
		if known[name] {
			continue
		}
		list = append(list, UnknownName{Name: item, Nearest: nearestTransport(name, known)})
	}
	return list
}

// nearestTransport is nearest for names of transports. Because these are short, a permutation of the
// same letters counts as one edit.
func nearestTransport(name string, known map[string]bool) string {
	letters := func(s string) string {
		b := []byte(s)
		slices.Sort(b)
		return string(b)
	}
	own := letters(name)
	return nearestBy(name, known, func(a, b string, limit int) int {
		if len(a) == len(b) && letters(b) == own {
			return 1
		}
		return distance(a, b, limit)
	})
}

// TransportItem is an item of UCX_TLS, as written, without a ^.
type TransportItem string

// Selects reports whether the item stands for a transport.
func (i TransportItem) Selects(transport string) bool {
	return Transports{list: List{Items: []string{string(i)}}}.Use(transport) != UseNone
}

// name returns the transport or alias in an item.
func (i TransportItem) name() string {
	return strings.TrimSuffix(strings.TrimPrefix(string(i), `\`), auxSuffix)
}

// List returns the list as it was written.
func (t Transports) List() List { return t.list }

// isAuxiliary reports whether the transport is an auxiliary transport of some alias.
func isAuxiliary(name string) bool {
	for _, alias := range transportAliases {
		if slices.Contains(alias.members, name+auxSuffix) {
			return true
		}
	}
	return false
}
