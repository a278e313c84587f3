package evidence

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// cleaned is text without secrets, read through windows of some size.
func cleaned(t testing.TB, text string, values []string, window, margin int) string {
	t.Helper()
	p, err := io.ReadAll(newClean(iotest.HalfReader(strings.NewReader(text)), values, window, margin))
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// TestCleanIsTheRecordsText: reading in windows hides what looking at the whole
// text hides, wherever the windows end.
func TestCleanIsTheRecordsText(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA7\n", 40) + "-----END RSA PRIVATE KEY-----\n"
	values := []string{"correct horse battery", "two\nlines of it", "hunter2hunter2"}
	secrets := append([]string{
		key, "password=s3cr3t-of-mine\n", "Authorization: Bearer abcdefghijklmnop\n", "ghp_" + strings.Repeat("A1b2", 10) + " ",
		"https://user:pass@host/path\n", "curl -u user:pass x\n", `{"token":"abcdef123456"}` + "\n",
	}, values...)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 60 {
		var b strings.Builder
		for b.Len() < 40_000 {
			switch k := random.IntN(len(secrets) * 4); {
			case k < len(secrets):
				b.WriteString(secrets[k])
			case n%3 == 0:
				b.WriteString(strings.Repeat("x", 1+random.IntN(60)) + " ") // no line ends
			default:
				fmt.Fprintf(&b, "line %d of the output\n", random.IntN(1000))
			}
		}
		want := newRedactor(values).text(b.String())
		if got := cleaned(t, b.String(), values, 4096, 1024); got != want {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Fatalf("text %d differs from byte %d on:\n%q\nwant\n%q", n, i, got[i:min(len(got), i+120)], want[i:min(len(want), i+120)])
		}
	}
}

// TestCleanHoldsLittle: texts that can be cut nowhere are read with bounded
// memory, and a private key without an end hides all that follows.
func TestCleanHoldsLittle(t *testing.T) {
	for name, unit := range map[string]string{"one token": "A1b2", "one line of words": "word ", "zeros": "\x00", "begins": "-----BEGIN "} {
		head := "ghp_"
		c := Clean(io.MultiReader(strings.NewReader(head), strings.NewReader(strings.Repeat(unit, 4<<20/len(unit)))), []string{"hunter2hunter2"})
		most := 0
		for p := make([]byte, 64<<10); ; {
			_, err := c.Read(p)
			most = max(most, cap(c.in), cap(c.out))
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if most > 3*maxClean {
			t.Errorf("%s: %d bytes were held at once", name, most)
		}
	}
	got := cleaned(t, "a\n-----BEGIN PRIVATE KEY-----\n"+strings.Repeat("MIIE\n", maxClean), nil, cleanWindow, cleanMargin)
	if got != "a\n"+hidden {
		t.Errorf("a key without an end leaves %d bytes: %.60q", len(got), got)
	}
	got = cleaned(t, "-----BEGIN PRIVATE KEY-----\n"+strings.Repeat("MIIE\n", maxClean)+"-----END PRIVATE KEY-----\nb\n", nil, cleanWindow, cleanMargin)
	if got != hidden+"\nb\n" {
		t.Errorf("a very long key leaves %d bytes: %.60q", len(got), got)
	}
}

func TestCleanPassesErrors(t *testing.T) {
	p, err := io.ReadAll(Clean(io.MultiReader(strings.NewReader("half\n"), iotest.ErrReader(io.ErrUnexpectedEOF)), nil))
	if err != io.ErrUnexpectedEOF || string(p) != "half\n" {
		t.Errorf("Read = %q, %v", p, err)
	}
	c := Clean(strings.NewReader("plain"), nil)
	if p, err := io.ReadAll(c); err != nil || string(p) != "plain" || c.Hidden() {
		t.Errorf("Read = %q, %v, hidden %v", p, err, c.Hidden())
	}
}

// FuzzClean: no value that was given is in what is read, whatever is around it.
func FuzzClean(f *testing.F) {
	f.Add("PASSWORD=%s\n", "hunter2hunter2", uint16(700))
	f.Add("%s-----BEGIN X PRIVATE KEY-----", "a\nb\nc", uint16(2000))
	f.Fuzz(func(t *testing.T, frame, secret string, shift uint16) {
		if len(secret) < minValue || len(frame) > 1<<13 || len(secret) > 1<<9 || strings.Contains(hidden, secret) || strings.Contains(secret, hidden) {
			return
		}
		before, after, _ := strings.Cut(frame, "%s")
		text := strings.Repeat("a line\n", int(shift%2048)) + before + secret + after + strings.Repeat("b", 3000)
		got := cleaned(t, text, []string{secret}, 2048, 512)
		if strings.Contains(got, secret) && !strings.Contains(strings.ReplaceAll(got, hidden, "\x00"), secret) {
			return
		}
		if strings.Contains(got, secret) && strings.Count(newRedactor([]string{secret}).text(text), secret) == 0 {
			t.Errorf("%q is in what was read of %q", secret, frame)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for _, unit := range []string{"plain text of a build that says what it does\n", "x", "password = x "} {
		text := bytes.Repeat([]byte(unit), 4<<20/len(unit))
		b.Run(fmt.Sprintf("%.12q", unit), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := io.Copy(io.Discard, Clean(bytes.NewReader(text), []string{"hunter2hunter2"})); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
