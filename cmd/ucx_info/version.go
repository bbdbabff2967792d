package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/ucx-go/ucx/ucp"
)

// versionInfo is the output of -v.
type versionInfo struct {
	Library       string `json:"library"`
	Path          string `json:"path"`
	API           string `json:"api"`
	Revision      string `json:"revision"`
	Configuration string `json:"configuration"`
	Module        string `json:"module"`
}

// version describes the library. The library is linked into this program, so its path is the
// program's. Its release is the release of the C API that it implements, which C programs compare.
func version() versionInfo {
	path, err := os.Executable()
	if err != nil {
		path = "<unknown>"
	}
	b := buildSettings()
	configuration := []string{b["GO_VERSION"]}
	for _, name := range sortedNames(b) {
		if name != "GO_VERSION" && !strings.HasPrefix(name, "VCS") && b[name] != "" {
			configuration = append(configuration, name+"="+b[name])
		}
	}
	revision := b["VCS_REVISION"]
	if len(revision) > 7 {
		revision = revision[:7]
	}
	return versionInfo{
		Library:       ucp.VersionString(),
		Path:          path,
		API:           ucp.VersionString(),
		Revision:      revision,
		Configuration: strings.Join(configuration, " "),
		Module:        strings.TrimSpace(b["MODULE"] + " " + b["MODULE_VERSION"]),
	}
}

func writeVersion(w io.Writer, v versionInfo) {
	fmt.Fprintf(w, "# Library version: %s\n", v.Library)
	fmt.Fprintf(w, "# Library path: %s\n", v.Path)
	fmt.Fprintf(w, "# API headers version: %s\n", v.API)
	fmt.Fprintf(w, "# Git branch '', revision %s\n", v.Revision)
	fmt.Fprintf(w, "# Configured with: %s\n", v.Configuration)
	fmt.Fprintf(w, "# Module: %s\n", v.Module)
}

// buildSettings returns the build settings that the Go tool recorded, under names like those of C's
// configuration macros: "vcs.revision" is VCS_REVISION.
func buildSettings() map[string]string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return map[string]string{}
	}
	m := map[string]string{
		"GO_VERSION":     info.GoVersion,
		"MODULE":         info.Main.Path,
		"MODULE_VERSION": info.Main.Version,
	}
	for _, s := range info.Settings {
		name := strings.TrimPrefix(s.Key, "-")
		name = strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))
		m[name] = s.Value
	}
	return m
}

// writeBuild prints settings as C's tool prints its macros.
func writeBuild(w io.Writer, settings map[string]string) {
	for _, name := range sortedNames(settings) {
		fmt.Fprintf(w, "#define %-25s %s\n", name, settings[name])
	}
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
