//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// linkLine matches a line of `rdma link`: link rxe0/1 state ACTIVE physical_state LINK_UP netdev
// veth0.
var linkLine = regexp.MustCompile(`(?m)^link (\S+)/(\d+) (?:.* )?state (\S+) .*?(?:netdev (\S+))?\s*$`)

// TestRDMADevices compares -d with the output of iproute2 and libibverbs.
func TestRDMADevices(t *testing.T) {
	rdmatest.All(t)
	links, err := exec.Command("rdma", "link").Output()
	if err != nil {
		t.Fatal(err)
	}
	devinfo, err := exec.Command("ibv_devinfo").Output()
	if err != nil {
		t.Fatal(err)
	}
	ucttest.NoLeaks(t)
	var stdout, stderr strings.Builder
	if code := run([]string{"-d", "-json"}, &stdout, &stderr); code != exitOK || stderr.Len() != 0 {
		t.Fatalf("%d, %s", code, &stderr)
	}
	var doc struct {
		Devices struct {
			RDMADevices []jsonRDMA `json:"rdma_devices"`
		} `json:"devices"`
	}
	if err := json.Unmarshal([]byte(stdout.String()), &doc); err != nil {
		t.Fatal(err)
	}
	stdout.Reset()
	if code := run([]string{"-d"}, &stdout, &stderr); code != exitOK || stderr.Len() != 0 {
		t.Fatalf("%d, %s", code, &stderr)
	}
	found := linkLine.FindAllStringSubmatch(string(links), -1)
	if len(found) == 0 || len(found) != len(doc.Devices.RDMADevices) {
		t.Fatalf("%d devices, rdma link:\n%s", len(doc.Devices.RDMADevices), links)
	}
	for i, l := range found {
		d := &doc.Devices.RDMADevices[i]
		if d.Name != l[1] || d.Error != "" || d.Driver == "" || len(d.Ports) != 1 {
			t.Errorf("%+v, rdma link: %q", d, l[0])
			continue
		}
		if want := []string{"rc_verbs", "ud_verbs"}; !slices.Equal(d.Transports, want) {
			t.Errorf("%s has the transports %v, want %v", d.Name, d.Transports, want)
		}
		p := &d.Ports[0]
		if p.State != l[3] || len(p.GIDs) == 0 || p.GIDs[0].NetDev != l[4] || p.MTU == nil || p.Bandwidth <= 0 {
			t.Errorf("%+v, rdma link: %q", p, l[0])
		}
		_, c, _ := strings.Cut(string(devinfo), "hca_id:\t"+d.Name+"\n")
		mtu := regexp.MustCompile(`active_mtu:\s+(\d+)`).FindStringSubmatch(c)
		guid := regexp.MustCompile(`node_guid:\s+(\S+)`).FindStringSubmatch(c)
		if mtu == nil || guid == nil || guid[1] != d.NodeGUID || !strings.Contains(stdout.String(), "mtu: "+mtu[1]+" bytes, at most ") {
			t.Errorf("%s has GUID %s; ibv_devinfo %q and %q", d.Name, d.NodeGUID, guid, mtu)
		}
		if !strings.Contains(stdout.String(), "#\n# RDMA device: "+d.Name+"\n") {
			t.Errorf("no %s in\n%s", d.Name, &stdout)
		}
	}
}

// TestRDMAPermission: a user without permission to open a device sees the device and the reason.
func TestRDMAPermission(t *testing.T) {
	rdmatest.All(t)
	if os.Getenv("VM_NET") == "" {
		t.Skip("changes the permissions of a device: only in the virtual machine")
	}
	const node = "/dev/infiniband/uverbs0"
	st, err := os.Stat(node)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(node, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(node, st.Mode().Perm())
	c := exec.Command(os.Args[0], "-d")
	c.Env = append(os.Environ(), asCommand+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	const want = "< failed to open RDMA device rxe0: uverbs0: open " + node + ": permission denied: needs read and write permission on the device node"
	if !strings.Contains(string(out), want) || !strings.Contains(string(out), "#                gid 1: ") {
		t.Errorf("no %q in\n%s", want, out)
	}
}
