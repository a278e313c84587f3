package channel

import "testing"

// BenchmarkListen is what the channel adds to the start of a runtime.
func BenchmarkListen(b *testing.B) {
	dir := Folder(b.TempDir() + "/run")
	for b.Loop() {
		s, err := Listen(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// BenchmarkVet is what each connection costs before a word is said.
func BenchmarkVet(b *testing.B) {
	s, err := Listen(Folder(b.TempDir()+"/run"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		line, err := lineage(readProc, s.self.PID)
		if err != nil {
			b.Fatal(err)
		}
		newHousehold(s.self.confinement, s.o.Sessions, s.runtimes()).refuse(line)
	}
}
