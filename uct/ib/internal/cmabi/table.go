//go:build linux

package cmabi

import "reflect"

// CommandSpec describes a command: the struct after the header, and the data that one of its fields
// points to.
type CommandSpec struct {
	ID   uint32
	Name string
	In   reflect.Type
	// Pointer is the offset in In of the address of further data, -1 if there is none.
	Pointer int
	// Out is the struct that the kernel writes to that address. If it is nil, the kernel reads the
	// data there.
	Out reflect.Type
}

// Commands are the commands of the kernel that this module uses; ucma_cmd_table,
// drivers/infiniband/core/ucma.c.
var Commands = []CommandSpec{
	out[CreateId, CreateIdResp](RDMA_USER_CM_CMD_CREATE_ID, "CREATE_ID", 8),
	out[DestroyId, DestroyIdResp](RDMA_USER_CM_CMD_DESTROY_ID, "DESTROY_ID", 0),
	in[Bind](RDMA_USER_CM_CMD_BIND, "BIND"),
	in[ResolveAddr](RDMA_USER_CM_CMD_RESOLVE_ADDR, "RESOLVE_ADDR"),
	in[ResolveRoute](RDMA_USER_CM_CMD_RESOLVE_ROUTE, "RESOLVE_ROUTE"),
	out[Query, QueryRouteResp](RDMA_USER_CM_CMD_QUERY_ROUTE, "QUERY_ROUTE", 0),
	out[Query, QueryAddrResp](RDMA_USER_CM_CMD_QUERY, "QUERY", 0),
	in[Connect](RDMA_USER_CM_CMD_CONNECT, "CONNECT"),
	in[Listen](RDMA_USER_CM_CMD_LISTEN, "LISTEN"),
	in[Accept](RDMA_USER_CM_CMD_ACCEPT, "ACCEPT"),
	in[Reject](RDMA_USER_CM_CMD_REJECT, "REJECT"),
	in[Disconnect](RDMA_USER_CM_CMD_DISCONNECT, "DISCONNECT"),
	out[InitQpAttr, QpAttr](RDMA_USER_CM_CMD_INIT_QP_ATTR, "INIT_QP_ATTR", 0),
	out[GetEvent, EventResp](RDMA_USER_CM_CMD_GET_EVENT, "GET_EVENT", 0),
	{RDMA_USER_CM_CMD_SET_OPTION, "SET_OPTION", reflect.TypeFor[SetOption](), 0, nil},
	in[Notify](RDMA_USER_CM_CMD_NOTIFY, "NOTIFY"),
	out[JoinMcast, CreateIdResp](RDMA_USER_CM_CMD_JOIN_MCAST, "JOIN_MCAST", 0),
	out[DestroyId, DestroyIdResp](RDMA_USER_CM_CMD_LEAVE_MCAST, "LEAVE_MCAST", 0),
	out[MigrateId, MigrateResp](RDMA_USER_CM_CMD_MIGRATE_ID, "MIGRATE_ID", 0),
}

func in[I Struct](id uint32, name string) CommandSpec {
	return CommandSpec{id, name, reflect.TypeFor[I](), -1, nil}
}

func out[I, O Struct](id uint32, name string, pointer int) CommandSpec {
	return CommandSpec{id, name, reflect.TypeFor[I](), pointer, reflect.TypeFor[O]()}
}

// Lookup returns the command of a number, nil if there is none.
func Lookup(id uint32) *CommandSpec {
	for i := range Commands {
		if Commands[i].ID == id {
			return &Commands[i]
		}
	}
	return nil
}
