package evidence

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wasmtools/wasmtools/tool"
)

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nb3BlbnNzaC1rZXk\n-----END RSA PRIVATE KEY-----"

// TestRedactText: what must go, and what must stay.
func TestRedactText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		// Private keys.
		{"a\n" + pem + "\nb", "a\n[redacted]\nb"},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "[redacted]"},
		{"x -----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK----- y", "x [redacted] y"},
		{pem + pem, "[redacted][redacted]"},
		{strings.ReplaceAll(pem, "\n", `\n`), "[redacted]"},
		{"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", ""},
		{"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n" + pem, "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n[redacted]"},
		{"a PRIVATE KEY is secret", ""},

		// URLs.
		{"git clone https://me:hunter2@example.com/x.git", "git clone https://[redacted]@example.com/x.git"},
		{"https://ghtoken@example.com", "https://[redacted]@example.com"},
		{"postgres://u:p%40@db:5432/x?y=z a://b:c@d", "postgres://[redacted]@db:5432/x?y=z a://[redacted]@d"},
		{"a://u:p@ss@host/", "a://[redacted]@host/"},
		{"https://example.com/a@b", ""},
		{"see https://example.com and mail me@example.com", ""},
		{"https://h/?token=abc123&x=1", "https://h/?token=[redacted]&x=1"},

		// Tokens by their form.
		{"ghp_0123456789abcdefghijABCDEFGHIJ012345 and more", "[redacted] and more"},
		{"key=sk-abcdefghijklmnopqrstuvwxyz", "key=[redacted]"},
		{"AKIAIOSFODNN7EXAMPLE", "[redacted]"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P", "[redacted]"},
		{"the sk-learn package, task_ghp_x, ghp_short", ""},

		// Names and values.
		{"PASSWORD=hunter2 make deploy", "PASSWORD=[redacted] make deploy"},
		{"export AWS_SECRET_ACCESS_KEY='a b c'; ls", "export AWS_SECRET_ACCESS_KEY='[redacted]'; ls"},
		{`curl -H "Authorization: Bearer abc.def" https://x`, `curl -H "Authorization: [redacted]" https://x`},
		{"Cookie: a=b; c=d\nHost: x", "Cookie: [redacted]\nHost: x"},
		{"curl --header 'X-Api-Key: 123' -s", "curl --header 'X-Api-Key: [redacted]' -s"},
		{"mysql --password hunter2 -u root", "mysql --password [redacted] -u root"},
		{"mysql --password=hunter2 -u root", "mysql --password=[redacted] -u root"},
		{`{"password": "hunter2", "user": "me"}`, `{"password": "[redacted]", "user": "me"}`},
		{`{"apiKey":"a\"b"}`, `{"apiKey":"[redacted]"}`},
		{`"{\"client_secret\": \"xyz\"}"`, `"{\"client_secret\": \"[redacted]\"}"`},
		{"db:\n  password: hunter2\n  user: me\n", "db:\n  password: [redacted]\n  user: me\n"},
		{"password = hunter2\n", "password = [redacted]\n"},
		{"client_secret: 'x y'", "client_secret: '[redacted]'"},
		{"Bearer abcdefgh12", "Bearer [redacted]"},
		{`const token = "abc"`, `const token = "[redacted]"`},

		// With blanks, in the middle of a line.
		{"echo aws_secret_access_key = wJalrXUtnFEMI >>c", "echo aws_secret_access_key = [redacted] >>c"},
		{"echo aws_secret_access_key =  wJalrXUtnFEMI", "echo aws_secret_access_key =  [redacted]"},
		{"x; api_key : abc123; y", "x; api_key : [redacted]; y"},
		{"set it so: client-secret: wJalrXUtnFEMI", "set it so: client-secret: [redacted]"},
		{`echo "aws_secret_access_key" = "wJalr"`, `echo "aws_secret_access_key" = "[redacted]"`},
		{`printf '[default]\naws_secret_access_key = wJalrXUtnFEMI'`, `printf '[default]\naws_secret_access_key = [redacted]'`},
		{"crudini --set f db password = hunter2", "crudini --set f db password = [redacted]"},

		// Name and password in one word.
		{"curl -u me:hunter2 https://h", "curl -u [redacted] https://h"},
		{"curl -ume:hunter2 https://h", "curl -u[redacted] https://h"},
		{"curl -u'me:hun ter2' https://h", "curl -u'[redacted]' https://h"},
		{`curl -u "me:hun ter2" https://h`, `curl -u "[redacted]" https://h`},
		{`curl -u me:"hun ter2" https://h`, `curl -u [redacted] https://h`},
		{`curl -u me:hun\ ter2 https://h`, `curl -u [redacted] https://h`},
		{"curl -sSLu me:hunter2 https://h", "curl -sSLu [redacted] https://h"},
		{"curl --user me:hunter2 -s", "curl --user [redacted] -s"},
		{"curl --user=me:hunter2 -s", "curl --user=[redacted] -s"},
		{"curl -s --user 'me:hunter2'", "curl -s --user '[redacted]'"},
		{"curl -U p:q1 --proxy-user p:q2 h", "curl -U [redacted] --proxy-user [redacted] h"},
		{`sh -c "curl -u \"me:hun ter2\" h"`, `sh -c "curl -u \"[redacted]\" h"`},
		{"curl -u me https://h:80/", ""},
		{"docker run -u 1000:1000 img; sudo -u me ls a:b; date -u +%H:%M; git push -u origin a:b", ""},
		{"sort -u a; a-u b:c", ""},

		// What only speaks of secrets stays.
		{"token := lexer.Next()", ""},
		{"func password(token string) (secret string)", ""},
		{"if token == nil { return }", ""},
		{"password = getpass()", ""},
		{"token: string", ""},
		{"password=$PASSWORD make", ""},
		{"max_tokens=100 token_count=5 secret_ref=db keyboard=us", ""},
		{"the password is in the safe", ""},
		{"grep -r token: .", ""},
		{"error: unexpected token: identifier", ""},
		{"if (token == other) return; x := token := other", ""},
		{"bearer of bad news", ""},
		{"--token --verbose", ""},
		{"token=", ""},
		{"", ""},
	} {
		want := c.want
		if want == "" {
			want = c.in
		}
		r := newRedactor(nil)
		if got := r.text(c.in); got != want || r.hit != (want != c.in) {
			t.Errorf("text(%q) = %q, hit %v; want %q", c.in, got, r.hit, want)
		}
	}
}

func TestSecretNames(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "Password": true, "userPassword": true, "PGPASSWORD": true, "DB_PASSWD": true, "token": true, "GITHUB_TOKEN": true,
		"accessToken": true, "access-token": true, "authorization": true, "Proxy-Authorization": true, "x-api-key": true, "apiKey": true, "API_KEY": true,
		"apikey": true, "AWS_SECRET_ACCESS_KEY": true, "private_key": true, "privateKey": true, "client.secret": true, "credentials": true,
		"Set-Cookie": true, "secretValue": true, "authorization_header": true, "HTTPToken": true, "passphrase": true,
		"max_tokens": false, "tokens": false, "token_count": false, "secret_ref": false, "key": false, "keys": false, "public_key": false,
		"path": false, "passwordless": false, "tokenizer": false, "monkey": false, "": false, "author": false, "primary_key": false,
		strings.Repeat("x", 200) + "_token": false,
	} {
		if got := isSecretName(name); got != want {
			t.Errorf("isSecretName(%q) = %v, want %v", name, got, want)
		}
	}
}

// TestInsideBase64: a value inside a longer base64 text is hidden wherever it
// begins, in both alphabets, padded or not.
func TestInsideBase64(t *testing.T) {
	for _, secret := range []string{"hunter2-hunter2", "ab>?", "ÿþý~~~???"} {
		for before := range 7 {
			for after := range 7 {
				plain := strings.Repeat("?", before) + secret + strings.Repeat("~", after)
				for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
					in := "x " + enc.EncodeToString([]byte(plain)) + " y"
					r := newRedactor([]string{secret})
					got := r.text(in)
					if !r.hit || !strings.Contains(got, hidden) || !strings.HasPrefix(got, "x ") || !strings.HasSuffix(got, " y") {
						t.Fatalf("%d before and %d after: text(%q) = %q", before, after, in, got)
					}
					// What stays on both sides holds nothing but the neighbours.
					left, right, _ := strings.Cut(strings.Trim(got, "xy "), hidden)
					if len(left) > (before*8+5)/6 || len(strings.TrimRight(right, "=")) > (after*8+5)/6 {
						t.Fatalf("%d before and %d after: text(%q) = %q keeps some of it", before, after, in, got)
					}
				}
			}
		}
	}
	// Control: a text without it stays.
	in := base64.StdEncoding.EncodeToString([]byte("hunter1-hunter3-hunter4"))
	if got := newRedactor([]string{"hunter2-hunter2"}).text(in); got != in {
		t.Errorf("text(%q) = %q", in, got)
	}
}

func TestRedactArguments(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":"x"}`, `{"a":"x","b":1}`},
		{`{"password":"x","n":{"token":5,"api_key":["a"],"secret":null,"cookie":true,"pwd":""}}`,
			`{"n":{"api_key":"[redacted]","cookie":true,"pwd":"","secret":null,"token":"[redacted]"},"password":"[redacted]"}`},
		{`{"env":{"GH_TOKEN":"x","PATH":"/bin"},"command":"X_TOKEN=y ls"}`, `{"command":"X_TOKEN=[redacted] ls","env":{"GH_TOKEN":"[redacted]","PATH":"/bin"}}`},
		{`{"a":["https://u:p@h",1.50,12345678901234567890]}`, `{"a":["https://[redacted]@h",1.50,12345678901234567890]}`},
		{`{"argv":["curl","-u","me:x","--password","y","--token","--v","-u","me"]}`, `{"argv":["curl","-u","[redacted]","--password","[redacted]","--token","--v","-u","me"]}`},
		{`{"headers":[["Authorization","x"],{"name":"X-Api-Key","value":"y"},{"key":"Cookie","value":["z"]},["a","b"],{"name":"a","value":"b"}]}`,
			`{"headers":[["Authorization","[redacted]"],{"name":"X-Api-Key","value":"[redacted]"},{"key":"Cookie","value":"[redacted]"},["a","b"],{"name":"a","value":"b"}]}`},
		{`{"https://u:p@h":1}`, `{"https://[redacted]@h":1}`},
		{`not json`, `"not json"`},
		{``, ``},
	} {
		r := newRedactor(nil)
		if got := string(r.arguments(json.RawMessage(c.in))); got != c.want {
			t.Errorf("arguments(%s) = %s, want %s", c.in, got, c.want)
		}
	}
}

// TestSpellings: a value is found in the forms in which programs print it.
// Control: another value in the same forms stays.
func TestSpellings(t *testing.T) {
	for form, spell := range map[string]func(string) string{
		"plain":       func(v string) string { return v },
		"hex":         func(v string) string { return hex.EncodeToString([]byte(v)) },
		"capital hex": func(v string) string { return fmt.Sprintf("%X", v) },
		"query":       url.QueryEscape,
		"query, small": func(v string) string {
			return strings.NewReplacer("%2F", "%2f", "%3D", "%3d", "%3C", "%3c").Replace(url.QueryEscape(v))
		},
		"JSON":              jsonInside,
		"JSON for pages":    func(v string) string { p, _ := json.Marshal(v); return strings.Trim(string(p), `"`) },
		"JSON, slashes too": func(v string) string { return strings.ReplaceAll(jsonInside(v), "/", `\/`) },
		"base64":            func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) },
	} {
		const value, other = "s3/va=lue<1", "z9/ab=cde<2"
		r := newRedactor([]string{value})
		if got := r.text("(" + spell(value) + ")"); got != "("+hidden+")" {
			t.Errorf("%s: %q stays as %q", form, spell(value), got)
		}
		if got := r.text("(" + spell(other) + ")"); got != "("+spell(other)+")" {
			t.Errorf("%s: %q, which is no secret, becomes %q", form, spell(other), got)
		}
	}
}

func TestCut(t *testing.T) {
	r := newRedactor(nil)
	long := strings.Repeat("é", 5000)
	got := string(r.arguments(json.RawMessage(fmt.Sprintf(`{"content":%q,"path":"p"}`, long))))
	if !strings.Contains(got, "cut: 10000 bytes, "+string(tool.DigestOf([]byte(long)))) || !strings.HasSuffix(got, `"path":"p"}`) || len(got) > 2*maxText {
		t.Errorf("arguments = %s", got)
	}
	many := `[` + strings.Repeat(`"0123456789",`, 5000) + `1]`
	got = string(r.arguments(json.RawMessage(many)))
	var v struct{ Cut struct{ Bytes int } }
	if err := json.Unmarshal([]byte(got), &v); err != nil || v.Cut.Bytes != len(many) || len(got) > 2*headArgs+maxText {
		t.Errorf("arguments of %d bytes = %d bytes %.100s, %v", len(many), len(got), got, err)
	}
	deep := strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000)
	if got := r.arguments(json.RawMessage(deep)); len(got) > 2*headArgs+maxText || !json.Valid(got) {
		t.Errorf("deep arguments: %d bytes", len(got))
	}
	// A secret at the border of the cut, and behind it.
	for at := maxText - 40; at < maxText+10; at++ {
		s := strings.Repeat("x", at) + " PASSWORD=hunter2 " + strings.Repeat("y", 2000)
		r := newRedactor(nil)
		if got := r.clean(s, maxText); strings.Contains(got, "hunt") || !r.hit {
			t.Fatalf("cut at %d: %q", at, got[maxText-60:])
		}
	}
}

// TestSecretsNever hands secrets in on every way there is, and looks for them in
// all files of the record, in every spelling.
func TestSecretsNever(t *testing.T) {
	const shared, own, late, short = `s3cr3t+"v/ä=`, "own-secret-value", "late-secret-value", "pin"
	l := testLog(t, func(o *Options) { o.Secrets = func() []string { return []string{shared, short} } })
	all := []string{shared, own}
	everything := strings.Join([]string{
		shared, own, url.QueryEscape(shared), url.PathEscape(shared), base64.StdEncoding.EncodeToString([]byte(shared)),
		base64.RawURLEncoding.EncodeToString([]byte(own)), jsonInside(shared), "https://u:userinfo-secret@h/", pem, "X_TOKEN=assigned-secret",
	}, " ")
	args, _ := json.Marshal(map[string]any{
		"content": everything, "password": "named-secret", "pin": short, "n": []any{own, map[string]string{own: shared}},
	})
	in := Intent{
		Call: everything, Turn: everything, Session: everything, Trace: everything, Principal: everything, Tool: everything, As: everything, From: everything,
		Source: tool.Builtin, Effects: tool.Writes, Arguments: args, Input: tool.DigestOf(args), Secrets: []string{own},
	}
	ap := Approval{Verdict: everything, Rule: Rule{everything, everything, 1}, By: everything, Channel: everything, Ticket: everything, Reason: everything, Saved: everything, Binding: tool.DigestOf([]byte(own))}
	h := begin(t, l, in)
	w := []Write{{Op: tool.OpWrite, Path: everything, From: everything, Before: tool.DigestOf([]byte(own)), After: tool.DigestOf([]byte(shared))}}
	art := Artifact{everything, everything, 1, tool.DigestOf([]byte(own))}
	// A secret comes in two pieces.
	for _, e := range []Event{
		{Kind: Output, Stream: "stdout", Text: []byte("before " + own[:8])}, {Kind: Output, Stream: "stdout", Text: []byte(own[8:] + " after " + late)},
		{Kind: Progress, Note: everything}, {Kind: ApprovalRequired, Approval: &ap, Writes: w}, {Kind: ArtifactMade, Artifact: &art},
	} {
		if err := l.Event(h, e); err != nil {
			t.Fatal(err)
		}
	}
	end(t, l, h, Outcome{
		Status: Completed, Refused: everything, Message: everything, Approval: ap, Writes: w, Secrets: []string{late},
		Used: Used{Paths: []string{everything}, Hosts: []string{everything}, ByFunction: map[string]int64{own: 1}}, Artifact: []Artifact{art}, Output: tool.DigestOf([]byte(own)),
	})
	// A stream whose kept part ends inside a secret.
	long := "a-long-secret-" + strings.Repeat("0123456789", 20)
	for pad := 2*maxHeadBytes - 30; pad < 2*maxHeadBytes; pad++ {
		h := begin(t, l, Intent{Call: "c", Tool: "t", Secrets: []string{long}})
		text := strings.Repeat(long+" ", 15) // shrinks, so that the border moves into what is shown
		text = (text + strings.Repeat("x", 2*maxHeadBytes))[:pad] + long + strings.Repeat("y", 100)
		if err := l.Event(h, Event{Kind: Output, Stream: "o", Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		end(t, l, h, Outcome{Status: Completed})
	}
	closeLog(t, l)
	verified(t, l.o.Dir)

	needles := []string{
		"userinfo-secret", "MIIEpAIBAAKCAQEA", "b3BlbnNzaC1rZXk", "assigned-secret", "named-secret", late, own[:12], long[:6], `"pin":"pin"`,
		string(tool.DigestOf(args)), string(tool.DigestOf([]byte(own))), string(tool.DigestOf([]byte(shared))),
	}
	for _, s := range all {
		needles = append(needles, newRedactor([]string{s}).values...)
	}
	entries, err := os.ReadDir(l.o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		p := string(read(t, filepath.Join(l.o.Dir, e.Name())))
		for _, n := range needles {
			if strings.Contains(p, n) {
				t.Errorf("%s holds %q", e.Name(), n)
			}
		}
	}
	r, _ := OpenReader(l.o.Dir)
	c, err := r.Call(h)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Redacted || !strings.HasPrefix(string(c.Intent.Input), "hmac-sha256:") || !strings.HasPrefix(string(c.Outcome.Output), "hmac-sha256:") {
		t.Errorf("redacted %v, input %s, output %s; want keyed digests", c.Redacted, c.Intent.Input, c.Outcome.Output)
	}
	if c.Streams[0].Head != "before [redacted] after [redacted]" {
		t.Errorf("stream = %q", c.Streams[0].Head)
	}

	// Control: without the rules all of it would be there.
	plain := string(encode(in)) + string(encode(ap))
	for _, n := range needles[:4] {
		if !strings.Contains(plain, n) {
			t.Errorf("control: %q is not in what was handed in", n)
		}
	}
}

// TestKeyedDigests: equal inputs stay recognisable within a record, and nobody
// without the key can try guesses.
func TestKeyedDigests(t *testing.T) {
	input := func(l *Log, secret string) tool.Digest {
		args := fmt.Sprintf(`{"password":%q}`, secret)
		h := begin(t, l, Intent{Call: "c", Tool: "t", Arguments: json.RawMessage(args), Input: tool.DigestOf([]byte(args))})
		r, err := OpenReader(l.o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Call(h)
		if err != nil {
			t.Fatal(err)
		}
		return c.Intent.Input
	}
	a, b := testLog(t), testLog(t)
	if x, y := input(a, "1"), input(a, "1"); x != y {
		t.Errorf("%s and %s for the same input", x, y)
	}
	if x, y := input(a, "1"), input(a, "2"); x == y {
		t.Errorf("%s for two inputs", x)
	}
	if x, y := input(a, "1"), input(b, "1"); x == y {
		t.Errorf("%s under two keys", x)
	}
	h := begin(t, a, readCall(`{}`))
	end(t, a, h, Outcome{Status: Completed, Output: tool.DigestOf([]byte("1")), Sensitive: true})
	r, _ := OpenReader(a.o.Dir)
	if c, err := r.Call(h); err != nil || !strings.HasPrefix(string(c.Outcome.Output), "hmac-") {
		t.Errorf("output of a sensitive result: %+v, %v", c, err)
	}
}

// TestBounds: whatever is handed in, a record is small, and says what it left
// out.
func TestBounds(t *testing.T) {
	l := testLog(t)
	huge := strings.Repeat("\x00\xff\"\u2028", 20_000)
	var paths []string
	var writes []Write
	var arts []Artifact
	fns := map[string]int64{}
	for i := range 5000 {
		paths = append(paths, fmt.Sprint(i, huge[:2000]))
		writes = append(writes, Write{Op: tool.OpWrite, Path: fmt.Sprint(i, huge[:2000]), From: huge[:2000], After: tool.DigestOf(nil)})
		arts = append(arts, Artifact{Handle: huge, Title: huge, Digest: tool.Digest(huge)})
		fns[fmt.Sprint(i, huge[:100])] = 1
	}
	args, _ := json.Marshal(map[string]string{"a": huge, "b": huge})
	h := begin(t, l, Intent{Call: huge, Tool: huge, Session: huge, Arguments: args, Input: tool.Digest(huge), Source: tool.Source(huge)})
	for range 1000 {
		if err := l.Event(h, Event{Kind: Output, Stream: huge, Text: []byte(huge)}); err != nil {
			t.Fatal(err)
		}
	}
	ap := Approval{Verdict: huge, By: huge, Reason: huge, Saved: huge, Rule: Rule{huge, huge, 1}, Ticket: huge, Channel: huge, Binding: tool.Digest(huge)}
	if err := l.Event(h, Event{Kind: Decided, Note: huge, Approval: &ap, Writes: writes}); err != nil {
		t.Fatal(err)
	}
	end(t, l, h, Outcome{Status: Status(huge), Code: tool.Code(huge), Message: huge, Refused: huge, Approval: ap, Writes: writes, Artifact: arts, Used: Used{Paths: paths, Hosts: paths, ByFunction: fns}})
	closeLog(t, l)
	verified(t, l.o.Dir)
	p := read(t, filepath.Join(l.o.Dir, segmentName(1)))
	for i, line := range lines(p) {
		if len(line) > maxLine {
			t.Errorf("line %d has %d bytes", i+1, len(line))
		}
	}
	r, _ := OpenReader(l.o.Dir)
	c, err := r.Call(h)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Cut || c.WritesTotal != 5000 || c.PathsTotal != 5000 || c.HostsTotal != 5000 || c.EventsDropped != 1000-maxEvents || len(c.Events) != maxEvents+1 {
		t.Errorf("left out: %d writes, %d paths, %d hosts, %d events", c.WritesTotal, c.PathsTotal, c.HostsTotal, c.EventsDropped)
	}
}

// BenchmarkRedact is about texts of a megabyte that are made to be slow: none
// may take more than some ten milliseconds.
func BenchmarkRedact(b *testing.B) {
	for _, unit := range []string{"plain text, ", "token=(", "token ", "token=x ", "a://u:p@h ", "a://", "://@", "ghp_", "ghp_0123456789abcdefghij ", "-----BEGIN ", pem, "-----BEGIN PRIVATE KEY-----", "bearer ", `"token":"`, "eyJ", "-u,", "-u+:,", `-u"`, "-ua:b ", "password = x "} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		b.Run(fmt.Sprintf("%.12q", unit), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				newRedactor(nil).text(text)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("PASSWORD=%s", "hunter2")
	f.Add(`{"a":"%s"}`, `x"y\z`)
	f.Add(pem+"%s", "abcd")
	f.Add("https://u:p@%s@h -----BEGIN X PRIVATE KEY-----", "ghp_0123")
	f.Fuzz(func(t *testing.T, frame, secret string) {
		if len(secret) < minValue || len(frame) > 1<<16 || len(secret) > 1<<10 || strings.Contains(hidden, secret) {
			return
		}
		before, after, _ := strings.Cut(frame, "%s")
		r := newRedactor([]string{secret})
		got := r.text(before + secret + after)
		// The text between two redactions may spell the value by accident only if
		// the frame put it together out of the marker.
		if strings.Contains(got, secret) && !strings.Contains(strings.ReplaceAll(got, hidden, "\x00"), secret) {
			return
		}
		if strings.Contains(got, secret) {
			t.Fatalf("text(%q) = %q holds %q", before+secret+after, got, secret)
		}
		if !r.hit {
			t.Fatalf("text(%q) = %q without a hit", before+secret+after, got)
		}
		args, err := json.Marshal(map[string]string{"x": before + secret + after})
		if err != nil {
			t.Fatal(err)
		}
		if p := newRedactor([]string{secret}).arguments(args); !json.Valid(p) {
			t.Fatalf("arguments(%s) = %s", args, p)
		}
	})
}

// TestTokenTable: the quick look knows the beginning of every form.
func TestTokenTable(t *testing.T) {
	for _, f := range tokenForms {
		r := newRedactor(nil)
		if got := r.text("x " + f.prefix + strings.Repeat("A1b2", 10)); got != "x "+hidden {
			t.Errorf("a token that begins with %q stays: %s", f.prefix, got)
		}
	}
}
