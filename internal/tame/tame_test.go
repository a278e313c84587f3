package tame

import (
	"regexp"
	"strings"
	"testing"
)

func whole(in string) string {
	var f Filter
	return string(f.Next(nil, []byte(in)))
}

// TestPasses: what programs draw with arrives as it was.
func TestPasses(t *testing.T) {
	for _, in := range []string{
		"plain\r\ntext\twith\bbell\a", "ünïcødé 漢字 🙂\u200d", "\x1b[1;31mred\x1b[0m", "\x1b[38:2::1:2:3m", "\x1b[38;5;200m",
		"\x1b[H\x1b[2J\x1b[K\x1b[10;20H\x1b[A\x1b[3B\x1b[2L\x1b[M\x1b[4P\x1b[X\x1b[5@\x1b[2;20r\x1b[S\x1b[2T\x1b[7b",
		"\x1b[?1049h\x1b[?25l\x1b[?1h\x1b=\x1b[?2004h", "\x1b7\x1b8\x1bM\x1bD\x1bE\x1b(0lqqk\x1b(B\x0e\x0f", "\x1b[s\x1b[u\x1b[2 q\x1b[!p\x1b[4h\x1b[4l",
	} {
		if got := whole(in); got != in {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

// TestTames: what asks, or reaches beyond the screen, does not arrive, and what
// stands beside it does.
func TestTames(t *testing.T) {
	for name, in := range map[string]string{
		"clipboard":                "\x1b]52;c;ZXZpbA==\a",
		"clipboard, ended by ST":   "\x1b]52;c;ZXZpbA==\x1b\\",
		"clipboard read":           "\x1b]52;c;?\a",
		"title":                    "\x1b]0;evil\a\x1b]2;evil\x1b\\\x1b]1;evil\a\x1bkevil\x1b\\",
		"title report":             "\x1b[21t\x1b[20t",
		"title stack":              "\x1b[22;0t\x1b[23;0t",
		"window":                   "\x1b[8;1;1t\x1b[3;9999;9999t\x1b[2t\x1b[9;1t",
		"device attributes":        "\x1b[c\x1b[0c\x1b[>c\x1b[=c\x1bZ",
		"status":                   "\x1b[5n\x1b[6n\x1b[?6n\x1b[?996n",
		"version":                  "\x1b[>q\x1b[>0q",
		"modes asked":              "\x1b[?2026$p\x1b[4$p",
		"settings asked":           "\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b[?u\x1b[>4;?m\x1b[x",
		"colours asked":            "\x1b]10;?\a\x1b]11;?\x1b\\\x1b]4;1;?\a",
		"colours set":              "\x1b]4;1;red\a\x1b]104\a",
		"answerback":               "\x05",
		"link":                     "\x1b]8;;https://evil.example\x1b\\\x1b]8;;\x1b\\",
		"notification":             "\x1b]9;evil\a\x1b]777;notify;a;b\a\x1b]99;;x\x1b\\",
		"file":                     "\x1b]1337;File=inline=1:AAAA\a\x1b]1337;SetProfile=x\a\x1b_Gf=100;AAAA\x1b\\",
		"image":                    "\x1bPq#0;2;0;0;0~~\x1b\\",
		"keys defined":             "\x1bP1;1|17/6c73\x1b\\\x1b[>4;2m\x1b[>1u\x1b[=1;1u",
		"printer":                  "\x1b[5i\x1b[4i\x1b[?5i",
		"mouse":                    "\x1b[?1000h\x1b[?1002;1003;1006h\x1b[?9h\x1b[1;2;3;4;5T",
		"focus":                    "\x1b[?1004h",
		"keyboard locked":          "\x1b[2h\x1b[12l\x1b[20h",
		"columns":                  "\x1b[?3h\x1b[?40h",
		"history erased":           "\x1b[3J",
		"lights, checksums":        "\x1b[1q\x1b[1;1;1;1;1;1*y",
		"controls with eight bits": "\x9b5n\x90q\x9c\x9d0;x\x9c",
		"controls in UTF-8":        "\u009b5n\u009d0;x\u009c\u0090q\u009c",
		"strings without name":     "\x1bXevil\x1b\\\x1b^evil\x1b\\",
		"a string cut off":         "\x1b]52;c;ZXZpbA==\x18",
		"huge numbers":             "\x1b[99999999999999999999b\x1b[65536b",
		"no sequence":              "\x1b[" + strings.Repeat("1;", 300) + "m",
		"other sets":               "\x1b%G\x1b%@\x1b(K\x1b*0\x1bn\x1bo",
	} {
		got := whole("before" + in + "after")
		got = strings.NewReplacer("\uFFFD", "", "5n", "", "q", "", "0;x", "").Replace(got) // what stands behind a control that is none any more
		if got != "beforeafter" {
			t.Errorf("%s: %q becomes %q", name, in, got)
		}
	}
	for in, want := range map[string]string{
		"\x1b[?25;1000;1049h": "\x1b[?25;1049h",
		"\x1b[1\x1b[2m":       "\x1b[2m",
		"\x1b[1\n2m":          "\n\x1b[12m",
		"\x1b]0;a\x1b[31mb":   "\x1b[31mb",
		"a\xffb\xc3(":         "a\uFFFDb\uFFFD(",
		"\x1b[5\xc3\xa9":      "é",
		"\x1b\x1b\x1b[1mx":    "\x1b[1mx",
		"\x1b]0;" + strings.Repeat("x", maxString) + "after": "xafter",
	} {
		if got := whole(in); got != want {
			t.Errorf("%.40q becomes %.80q, want %q", in, got, want)
		}
	}
}

// TestReset: what stays set is taken back, and nothing is where nothing was set.
func TestReset(t *testing.T) {
	for in, want := range map[string][]string{
		"plain":                  nil,
		"\x1b]0;t\a":             nil,
		"\x1b[31m":               {"\x1b[0m"},
		"\x1b[?1049h":            {"\x1b[?1049l", "\x1b[?25h"},
		"\x1b[?1049h\x1b[?1049l": {"\x1b[?25h"},
		"\x1b[4 q":               {"\x1b[0 q"},
		"\x0e":                   {"\x0f"},
	} {
		var f Filter
		f.Next(nil, []byte(in))
		got := string(f.Reset())
		if (got == "") != (want == nil) {
			t.Errorf("after %q: %q", in, got)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("after %q: %q lacks %q", in, got, w)
			}
		}
		if in == "\x1b[?1049h\x1b[?1049l" && strings.Contains(got, left) {
			t.Errorf("the other screen is left twice: %q", got)
		}
		if got != whole(got) {
			t.Errorf("a reset that does not pass itself: %q", got)
		}
		if f.touched || f.alternate {
			t.Error("it does not begin anew")
		}
	}
}

// drawn is all that may come out, said in another way than the filter's.
var drawn = regexp.MustCompile(`^(?:[\x07-\x0f\x20-\x7e]|[^\x{0}-\x{9f}]|\x1b(?:[78DEHM=>]|[()][0B]|#8|\[(?:` +
	`[0-9;:]*[@ABCDEFGHIKLMPSXZ` + "`" + `abdefgmr]|\??[0-24-9;:]*J|\?[0-9;:]*K|[0-9]*T|[su]|[0-9;:]* q|[0-9;:]*!p|4(?:;4)*[hl]|` +
	`\?(?:1|6|7|12|25|47|1047|1048|1049|2004|2026)(?:;(?:1|6|7|12|25|47|1047|1048|1049|2004|2026))*[hl])))*$`)

// FuzzFilter: only what draws comes out, wherever the input is cut.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"a\x1b[1;31mb\x1b]52;c;x\ac\x1b[6n\x1bP+q\x1b\\\xc2\x9b5n", "\x1b[?25;1000h\x1bc\x1b(0\x0eq", "\x1b[\x1b]\x1b\\\x18\x9d\xf0\x9f\x98", "\x1b[1\n2 q\x1b[!p\x1b[3J\x1b[1;2T\x1b#8",
		"\x1b[?001049h\x1b[?;25h\x1b[4;4;2h",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint8) {
		out := whole(string(in))
		if !drawn.MatchString(out) {
			t.Fatalf("%q lets %q through", in, out)
		}
		var one Filter
		var pieces []byte
		for rest := in; len(rest) > 0; {
			n := min(len(rest), int(cut)+1)
			pieces = one.Next(pieces, rest[:n])
			rest = rest[n:]
		}
		if string(pieces) != out {
			t.Fatalf("%q in pieces of %d: %q, whole: %q", in, int(cut)+1, pieces, out)
		}
		if again := whole(out); again != out {
			t.Fatalf("%q lets %q through, and of that %q", in, out, again)
		}
		if r := string(one.Reset()); !drawn.MatchString(r) {
			t.Fatalf("the reset after %q is %q", in, r)
		}
	})
}
