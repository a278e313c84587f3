package channel

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 4 5 6 34819 7 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 1"
	for _, name := range []string{"cat", "a b", "x) S 1 1 1 (y", ")", "", "\n"} {
		p, err := parseStat([]byte("42 (" + name + ")" + rest))
		if want := (proc{Process: Process{42, 4711}, parent: 4, session: 6, tty: 34819}); err != nil || p != want {
			t.Errorf("parseStat of a program named %q = %+v, %v; want %+v", name, p, err, want)
		}
	}
	for _, bad := range []string{"", "42", "42 (x", "42 (x) S 1", "x (y)" + rest, "42 (x) S a 5 6 7 8 9 1 0 0 0 0 0 0 0 20 0 1 0 11"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) reports no error", bad)
		}
	}
}

func TestReadProcOfThisProcess(t *testing.T) {
	p, err := readProc(os.Getpid())
	if err != nil || p.PID != os.Getpid() || p.parent != os.Getppid() || p.Start == 0 || p.pidSpaces == 0 {
		t.Fatalf("readProc = %+v, %v", p, err)
	}
	if _, err := readProc(1 << 30); err == nil {
		t.Error("a process that cannot exist is read without an error")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (cat) S 4 5 6 34819 7 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 1"))
	f.Add([]byte("1 ()) ("))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseStat(b)
		_ = parseStatus(b)
	})
}
