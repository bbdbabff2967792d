package ucs

import "testing"

// TestMemoryType holds the numbers of ucs/memory/memory_type.h and the names of
// ucs_memory_type_names, release 1.22.0; those of 1.13.1 end with rocm-managed.
func TestMemoryType(t *testing.T) {
	for n, tc := range []struct {
		typ  MemoryType
		name string
	}{
		{MemoryHost, "host"}, {MemoryCUDA, "cuda"}, {MemoryCUDAManaged, "cuda-managed"}, {MemoryROCm, "rocm"},
		{MemoryROCmManaged, "rocm-managed"}, {MemoryRDMA, "rdma"}, {MemoryZEHost, "ze-host"},
		{MemoryZEDevice, "ze-device"}, {MemoryZEManaged, "ze-managed"}, {MemoryGaudi, "gaudi"},
	} {
		if tc.typ.Wire() != uint8(n) || tc.typ.String() != tc.name || !tc.typ.Valid() {
			t.Errorf("%v: number %d, want %d, %s", tc.typ, tc.typ.Wire(), n, tc.name)
		}
		if back, ok := MemoryTypeFromWire(uint8(n)); back != tc.typ || !ok {
			t.Errorf("number %d is %v, %v", n, back, ok)
		}
	}
	for n := int(memoryLast) - 1; n <= 255; n++ {
		if typ, ok := MemoryTypeFromWire(uint8(n)); ok || typ != MemoryUnknown {
			t.Errorf("number %d is %v", n, typ)
		}
	}
	var zero MemoryType
	if zero != MemoryUnknown || zero.String() != "unknown" || zero.Wire() != MemoryHost.Wire() {
		t.Errorf("the zero value is %v, number %d", zero, zero.Wire())
	}
	if bad := MemoryType(200); bad.Valid() || bad.String() != "memory type 200" {
		t.Errorf("type 200 is %v", bad)
	}
}

// TestThreadMode holds the numbers of ucs/type/thread_mode.h.
func TestThreadMode(t *testing.T) {
	for n, tc := range []struct {
		mode ThreadMode
		name string
	}{
		{ThreadModeSingle, "single"}, {ThreadModeSerialized, "serialized"}, {ThreadModeMulti, "multi"},
	} {
		if int(tc.mode) != n || tc.mode.String() != tc.name || !tc.mode.Valid() {
			t.Errorf("mode %d is %v, want %d, %s", tc.mode, tc.mode, n, tc.name)
		}
	}
	if bad := ThreadMode(3); bad.Valid() || bad.String() != "thread mode 3" {
		t.Errorf("mode 3 is %v", bad)
	}
}
