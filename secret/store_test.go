package secret

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wasmtools/wasmtools/tool"
)

const value = "s3cr3t-v4lue-\"é\n"

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t *testing.T, s *Store, name, value string) {
	t.Helper()
	if err := s.Set(name, value); err != nil {
		t.Fatalf("Set(%q) = %v", name, err)
	}
}

// wantErr also looks for values and host paths in the error and its causes.
func wantErr(t *testing.T, what string, err error, code tool.Code, words ...string) {
	t.Helper()
	if tool.CodeOf(err) != code {
		t.Errorf("%s = %v; want %s", what, err, code)
	}
	for ; err != nil; err = errors.Unwrap(err) {
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s = %v; want %q in it", what, err, w)
			}
		}
		words = nil
		for _, leak := range []string{"s3cr3t", os.TempDir() + "/"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s = %v; it must not hold %q", what, err, leak)
			}
		}
	}
}

func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("List of an empty store = %v, %v", list, err)
	}
	_, err := s.Get("NONE")
	wantErr(t, "Get", err, tool.NotFound, "secret NONE is not set", "wasmtools secret set NONE")
	wantErr(t, "Remove", s.Remove("NONE"), tool.NotFound)

	before := time.Now().Add(-2 * time.Second)
	set(t, s, "b.token", "first")
	set(t, s, "A_TOKEN", value)
	set(t, s, "b.token", "second")
	other := open(t, dir) // what another process sees
	for name, want := range map[string]string{"A_TOKEN": value, "b.token": "second"} {
		if got, err := other.Get(name); err != nil || got != want {
			t.Errorf("Get(%s) = %q, %v; want %q", name, got, err, want)
		}
	}
	list, err := other.List()
	if err != nil || len(list) != 2 || list[0].Name != "A_TOKEN" || list[1].Name != "b.token" || list[1].Changed.Before(before) {
		t.Errorf("List = %v, %v", list, err)
	}
	if strings.Contains(fmt.Sprintf("%+v", list), "s3cr3t") {
		t.Errorf("List = %+v shows values", list)
	}
	if err := other.Remove("A_TOKEN"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Get("A_TOKEN")
	wantErr(t, "Get after Remove", err, tool.NotFound)
	if data, _ := os.ReadFile(filepath.Join(dir, fileName)); strings.Contains(string(data), "s3cr3t") {
		t.Errorf("the file still holds the removed value")
	}
	// Case matters, also where file names would not tell.
	set(t, s, "B.TOKEN", "upper")
	if got, _ := s.Get("b.token"); got != "second" {
		t.Errorf("Get(b.token) = %q after setting B.TOKEN", got)
	}
}

func TestNamesAndValues(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "secrets"))
	for _, name := range []string{"", ".", "..", "-x", "_x", "a/b", "../a", "a b", "a\n", "a\x00", "é", "s3cr3t value!", strings.Repeat("a", 65)} {
		wantErr(t, "Set", s.Set(name, "v"), tool.InvalidArguments, "name")
		_, err := s.Get(name)
		wantErr(t, "Get", err, tool.InvalidArguments)
		wantErr(t, "Remove", s.Remove(name), tool.InvalidArguments)
	}
	wantErr(t, "Set of nothing", s.Set("a", ""), tool.InvalidArguments)
	wantErr(t, "Set of bytes", s.Set("a", "s3cr3t\xff"), tool.InvalidArguments)
	wantErr(t, "Set of much", s.Set("a", strings.Repeat("s3cr3t", MaxValue)), tool.TooLarge)
	for _, name := range []string{"a", "0", "GITHUB_TOKEN", "a.b-c_d", strings.Repeat("a", 64)} {
		set(t, s, name, "v")
	}
	big := strings.Repeat("x", MaxValue)
	set(t, s, "big", big)
	if got, err := s.Get("big"); err != nil || got != big {
		t.Errorf("Get(big) = %d bytes, %v", len(got), err)
	}
}

func TestBounds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	big := strings.Repeat("\x01", MaxValue) // six bytes each in JSON
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = s.Set(fmt.Sprint("n", i), big)
	}
	wantErr(t, "Set", err, tool.Quota)
	if list, err := s.List(); err != nil || len(list) < 5 {
		t.Errorf("List = %d entries, %v; a refused Set must leave the store as it was", len(list), err)
	}
	m := map[string]record{}
	for i := range MaxCount {
		m[fmt.Sprint("n", i)] = record{Value: "v"}
	}
	root, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := replaceFile(root, m); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "Set", s.Set("more", "v"), tool.Quota)
	set(t, s, "n1", "again")
}

func TestDamagedFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	for _, data := range []string{
		"", "s3cr3t", `{"version":1,"secrets":{"a":{"value":"s3cr3t`, `{"version":2,"secrets":{}}`, `{"version":1,"secrets":{}} {}`, `[]`, `null`,
		`{"version":1,"secrets":{"../a":{"value":"s3cr3t"}}}`, `{"version":1,"secrets":{"a":{"value":""}}}`, `{"version":1,"s3cr3t":1}`,
		`{"version":1,"secrets":{"a":{"value":"s3cr3t","changed":"s3cr3t"}}}`, strings.Repeat(" ", maxFile+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, fileName), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get("a")
		wantErr(t, "Get", err, tool.Encoding)
		// What cannot be read is not overwritten either.
		wantErr(t, "Set", s.Set("a", "v"), tool.Encoding)
		if got, _ := os.ReadFile(filepath.Join(dir, fileName)); string(got) != data {
			t.Errorf("a damaged file %.40q was changed", data)
		}
	}
}

// TestCrash: what a crash leaves behind neither shows nor stays.
func TestCrash(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	set(t, s, "a", "old")
	left := filepath.Join(dir, newName)
	if err := os.WriteFile(left, []byte(`{"version":1,"secrets":{"a":{"value":"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get("a"); err != nil || got != "old" {
		t.Errorf("Get = %q, %v; want the old value", got, err)
	}
	set(t, s, "a", "new")
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the half-written file is still there: %v", err)
	}
}

// TestLostUpdate: a change that begins inside another one. Without the lock
// the first overwrites what the second wrote.
func TestLostUpdate(t *testing.T) {
	run := func(lock func(*os.Root, time.Duration) (func(), error)) (inner error, both bool) {
		dir := filepath.Join(t.TempDir(), "secrets")
		s, other := open(t, dir), open(t, dir)
		s.lock, other.lock = lock, lock
		other.lockWait = time.Millisecond
		s.beforeReplace = func() { inner = other.Set("second", "v") }
		set(t, s, "first", "v")
		list, err := s.List()
		if err != nil {
			t.Fatal(err)
		}
		return inner, len(list) == 2
	}
	inner, both := run(func(*os.Root, time.Duration) (func(), error) { return func() {}, nil })
	if inner != nil || both {
		t.Fatalf("control: without the lock Set = %v and both are there: %v; want nil and a lost update", inner, both)
	}
	inner, _ = run(takeLock)
	wantErr(t, "Set inside a Set", inner, tool.Busy)
}

// TestProcesses: several processes and goroutines set and read at once; none
// sees a failure, and nothing is lost.
func TestProcesses(t *testing.T) {
	const processes, each = 4, 10
	if who := os.Getenv("SECRET_TEST_CHILD"); who != "" {
		s := open(t, os.Getenv("SECRET_TEST_DIR"))
		for i := range each {
			name := fmt.Sprintf("p%s-%d", who, i)
			set(t, s, name, name)
			if got, err := s.Get(name); err != nil || got != name {
				t.Errorf("Get(%s) = %q, %v", name, got, err)
			}
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "secrets")
	s := open(t, dir)
	set(t, s, "always", "here")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for p := range processes {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestProcesses$")
			cmd.Env = append(os.Environ(), fmt.Sprint("SECRET_TEST_CHILD=", p), "SECRET_TEST_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("child: %v\n%s", err, out)
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		if got, err := s.Get("always"); err != nil || got != "here" {
			t.Fatalf("Get while others write = %q, %v", got, err)
		}
	}
	if list, err := s.List(); err != nil || len(list) != processes*each+1 {
		t.Errorf("List = %d entries, %v; want %d", len(list), err, processes*each+1)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"secrets":{"a":{"value":"v","changed":"2026-01-02T03:04:05Z"}}}`))
	f.Add([]byte(`{"version":1,"secrets":{"a":{"value":"s3cr3t-value`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(data)
		if err != nil {
			if tool.CodeOf(err) != tool.Encoding || len(err.Error()) > 200 {
				t.Fatalf("parse(%q) = %v", data, err)
			}
			return
		}
		for name, r := range m {
			if checkName(name) != nil || r.Value == "" {
				t.Fatalf("parse(%q) lets %q through", data, name)
			}
		}
	})
}
