package config

import (
	"errors"
	"slices"
)

// Transports is the setting UCX_TLS: a list of transports and aliases of groups
// of transports, all, or a list after ^ of what is not wanted. Before a name, \
// means the transport of exactly that name and no alias; :aux after a name
// means that the transport may serve others (a datagram transport that
// connects another one) but carry no data itself. The meaning is that of
// ucp_is_resource_in_transports_list in C UCX 1.22.0, src/ucp/core/ucp_context.c.
type Transports struct {
	list List
}

// Use says what a transport may be used for.
type Use uint8

// Uses.
const (
	UseNone      Use = iota
	UseAuxiliary     // serves other transports only
	UseAny
)

const auxSuffix = ":aux"

// transportAliases are the groups of ucp_tl_aliases: C UCX's list of names,
// whether or not this module has the transports.
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
	// Not wanted for itself, but others may depend on it.
	return UseAuxiliary
}

// mention says how a list refers to a transport.
type mention struct {
	name        bool // by name or by an alias it belongs to
	aux         bool // the same with :aux
	auxOfAlias  bool // by an alias it serves
	bothOfAlias bool // by an alias it belongs to and serves
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

// lists reports whether an item is spelled exactly so.
func (t Transports) lists(item string) bool { return slices.Contains(t.list.Items, item) }

// Missing returns the items of an allow list that select none of the transports
// at hand: most likely mistyped, or not available here.
func (t Transports) Missing(available []string) []string {
	if t.list.Mode != ListAllow {
		return nil
	}
	var missing []string
	for _, item := range t.list.Items {
		one := Transports{list: List{Items: []string{item}}}
		found := false
		for _, name := range available {
			found = found || one.Use(name) != UseNone
		}
		if !found {
			missing = append(missing, item)
		}
	}
	return missing
}

// isAuxiliary reports whether some alias uses the transport to serve others.
func isAuxiliary(name string) bool {
	for _, alias := range transportAliases {
		if slices.Contains(alias.members, name+auxSuffix) {
			return true
		}
	}
	return false
}
