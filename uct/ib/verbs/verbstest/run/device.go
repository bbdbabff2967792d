//go:build linux && (amd64 || arm64)

package run

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// device is a simulated device that a program has open.
type device struct {
	file  *verbstest.Opened
	rdev  uint64
	mem   *space
	owner *process
	ends  map[fileID]int // descriptors of event files in this process, by file
}

// openDevice answers open(2) of a device node.
func (c *caller) openDevice(node string, flags int) reply {
	k := c.m.net.Find(node)
	if k == nil {
		return refuse(unix.ENOENT)
	}
	p := c.m.watch(c)
	if p == nil {
		return pass // the process is gone
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
		handed: &givenFD{fd: d.file.Pages(), keep: true, number: c.free(), cloexec: flags&unix.O_CLOEXEC != 0},
		undo:   func() { c.m.close(id) },
	}
}

// free returns an unused descriptor number in the program, in the range for devices.
func (c *caller) free() int {
	for n := firstDevice; ; n++ {
		if _, taken := c.file(n); !taken {
			return n
		}
	}
}

// close closes an open device.
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

// close handles close(2). It closes the device if the process has no other descriptor of it. The
// kernel then closes the descriptor.
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

// maxCommand is the largest length of a write to a device, in bytes.
const maxCommand = 4096

// doorbell handles write(2) on a device, which rings a doorbell.
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

// request handles ioctl(2) with RDMA_VERBS_IOCTL.
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

// ours returns the descriptor in this process of the event file that the program has open as fd, -1
// for none.
func (c *caller) ours(d *device, fd int) int {
	if id, ok := c.file(fd); ok {
		if fd, ok := d.ends[id]; ok {
			return fd
		}
	}
	return -1
}

// theirs gives the program a duplicate of the descriptor fd of this process, and returns its number
// in the program. The descriptor fd stays open as long as the device.
func (c *caller) theirs(d *device, fd int) (int, bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, false
	}
	d.ends[fileID{uint64(st.Dev), st.Ino}] = fd
	n, errno := c.m.hand(c.id, &givenFD{fd: fd, cloexec: true})
	return n, errno == 0
}

// ended closes all devices of a process that has ended.
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
