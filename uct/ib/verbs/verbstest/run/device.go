//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// device is a device that a program has open.
type device struct {
	file  *verbstest.Opened
	rdev  uint64
	mem   *space
	owner *process
	ends  map[fileID]int // that events are read from: which file, and the descriptor here
}

// openDevice opens the device of a node.
func (c *caller) openDevice(node string, flags int) reply {
	k := c.m.net.Find(node)
	if k == nil {
		return refuse(unix.ENOENT)
	}
	p := c.m.watch(c)
	if p == nil {
		return pass // it is gone
	}
	mem, err := openSpace(c.tid)
	if err != nil {
		return refuse(unix.EACCES)
	}
	if !c.m.valid(c.id) {
		mem.close()
		return pass
	}
	d := &device{file: k.OpenIn(mem), rdev: c.m.tree.rdev(node), mem: mem, owner: p, ends: make(map[fileID]int)}
	var st unix.Stat_t
	if err := unix.Fstat(d.file.Pages(), &st); err != nil {
		d.end()
		return refuse(unix.EOPNOTSUPP)
	}
	id := fileID{uint64(st.Dev), st.Ino}
	c.m.devices[id] = d
	return reply{
		handed: &handed{fd: d.file.Pages(), keep: true, number: c.free(), cloexec: flags&unix.O_CLOEXEC != 0},
		undo:   func() { c.m.close(id) },
	}
}

// free is a number for a device's descriptor.
func (c *caller) free() int {
	for n := firstDevice; ; n++ {
		if _, taken := c.file(n); !taken {
			return n
		}
	}
}

// close ends an open device.
func (m *Machine) close(id fileID) {
	if d := m.devices[id]; d != nil {
		delete(m.devices, id)
		d.end()
	}
}

func (d *device) end() {
	d.file.Close()
	for _, fd := range d.ends {
		unix.Close(fd)
	}
	d.mem.close()
}

// close is close(2), by which the device is closed if its process has no other
// descriptor of it. The kernel closes the descriptor.
func (c *caller) close(fd int) reply {
	id, ok := c.file(fd)
	if d := c.m.devices[id]; ok && d != nil && d.owner.number == c.process() && !c.another(fd, id) {
		c.m.close(id)
	}
	return pass
}

// another reports whether the process has another descriptor of a file.
func (c *caller) another(fd int, id fileID) bool {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.tid))
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if other, ok := c.file(n); err == nil && n != fd && ok && other == id {
			return true
		}
	}
	return false
}

// maxCommand bounds what is written to a device.
const maxCommand = 4096

// doorbell is write(2) of a command.
func (c *caller) doorbell(fd int, addr, n uint64) reply {
	d := c.device(fd)
	if d == nil {
		return pass
	}
	if n > maxCommand {
		return refuse(unix.EINVAL)
	}
	b := make([]byte, n)
	if !c.Read(addr, b) {
		return refuse(unix.EFAULT)
	}
	done, errno := d.file.Write(b)
	return reply{value: int64(done), errno: errno}
}

// request is ioctl(2) with RDMA_VERBS_IOCTL.
func (c *caller) request(fd int, addr uint64) reply {
	d := c.device(fd)
	if d == nil {
		return pass
	}
	r, errno := fetch(c, addr)
	if errno != 0 {
		return refuse(errno)
	}
	r.take(func(fd int) int { return c.ours(d, fd) })
	if errno := d.file.Ioctl(r.frame); errno != 0 {
		return refuse(errno)
	}
	return refuse(r.answer(c, func(fd int) (int, bool) { return c.theirs(d, fd) }))
}

// ours is the descriptor here of a file that the program has been handed, -1 for none.
func (c *caller) ours(d *device, fd int) int {
	if id, ok := c.file(fd); ok {
		if fd, ok := d.ends[id]; ok {
			return fd
		}
	}
	return -1
}

// theirs hands the program a descriptor of ours, which stays open as long as the device.
func (c *caller) theirs(d *device, fd int) (int, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, false
	}
	d.ends[fileID{uint64(st.Dev), st.Ino}] = fd
	n, errno := c.m.hand(c.id, &handed{fd: fd, cloexec: true})
	return n, errno == 0
}

// ended closes all that an ended process had open.
func (m *Machine) ended(p *process) {
	for id, d := range m.devices {
		if d.owner == p {
			m.close(id)
		}
	}
	delete(m.processes, p.number)
	unix.Close(p.fd)
}

// executed closes the devices of processes that have executed another program.
func (m *Machine) executed() {
	for id, d := range m.devices {
		if d.mem.Gone() {
			m.close(id)
		}
	}
}
