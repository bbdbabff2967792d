package config

import "testing"

func BenchmarkRead(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Read("", ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	s, err := Read("", "")
	if err != nil {
		b.Fatal(err)
	}
	var v testSettings
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Load("test", &v); err != nil {
			b.Fatal(err)
		}
	}
}
