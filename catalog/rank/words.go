package rank

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"
)

// maxText is how much of one field of a tool is indexed, in bytes. What a server
// puts behind that is not for finding its tool.
const maxText = 16 << 10

// maxWord is how long a word may be, in bytes; longer ones are no words.
const maxWord = 48

// words gives the terms of a text: lower-case words without fillers, each as its
// stem. Names are split where their letters say so: camelCase, snake_case, digits.
// Scripts without spaces give single characters and pairs.
func words(text string, add func(term string)) { eachWord(text, func(_, stem string) { add(stem) }) }

// eachWord gives the words, too.
func eachWord(text string, add func(word, stem string)) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	var word []rune
	var last rune // of a script without spaces; 0: none
	flush := func() {
		if len(word) == 0 {
			return
		}
		w := strings.ToLower(string(word))
		word = word[:0]
		if len(w) > maxWord || fillers[w] {
			return
		}
		add(w, stem(w))
	}
	runes := []rune(norm.NFKC.String(text))
	for i, r := range runes {
		switch {
		case dense(r):
			flush()
			add(string(r), string(r))
			if last != 0 {
				pair := string([]rune{last, r})
				add(pair, pair)
			}
			last = r
			continue
		case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.Mn, r):
			flush()
		case len(word) > 0 && parts(word[len(word)-1], r, i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
			word = append(word, r)
		default:
			word = append(word, r)
		}
		last = 0
	}
	flush()
}

// parts reports whether a name has a border between two characters: fooBar,
// HTTPServer, mp3.
func parts(before, r rune, lowerNext bool) bool {
	switch {
	case unicode.IsDigit(before) != unicode.IsDigit(r):
		return true
	case unicode.IsLower(before) && unicode.IsUpper(r):
		return true
	}
	return unicode.IsUpper(before) && unicode.IsUpper(r) && lowerNext
}

// dense reports whether r is of a script that is written without spaces.
func dense(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai)
}

func stem(w string) string {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	if s, ok := stems.Load(w); ok {
		return s.(string)
	}
	s := english.Stem(w, false)
	if stemmed.Add(1) < maxStems {
		stems.Store(w, s)
	}
	return s
}

// stems remembers stems: the same few thousand words make most texts.
var (
	stems   sync.Map
	stemmed atomic.Int64
)

const maxStems = 50_000

// fillers are words that say nothing about what a tool does: those that hold
// sentences together, and those that requests are made with. Verbs that tools are
// named by (get aside, which all are) are no fillers.
var fillers = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
		a about above after again all also am an and any are as at be because been before being below between both but by can cannot could did do
		does doing done down during each either else etc ever every few for from further had has have having he her here hers him his how however i
		if in into is it its itself just kindly let ll may me might more most must my myself need needs no nor not now of off on once one only or
		other our ours out over own per please re s same shall she should so some still such t than thank thanks that the their theirs them then
		there these they this those through to too under until up upon us ve very via want wants was we well were what when where whether which
		while who whom whose why will with within without would yes yet you your yours
		able get gets getting give given help helps like looking make made using use used uses user tell know ensure help provide provided provides
	`) {
		m[w] = true
	}
	return m
}()

// grams gives the runs of three and four characters of a text, of each word with
// its borders. A gram is valid until the next one.
func grams(text string, add func(gram []byte)) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	word, at := make([]byte, 0, 64), make([]int, 0, 64) // at: where each character begins
	put := func(r rune) {
		at = append(at, len(word))
		word = utf8.AppendRune(word, r)
	}
	flush := func() {
		if n := len(at); n > 1 && n <= maxWord {
			put(' ')
			at = append(at, len(word))
			for size := 3; size <= 4; size++ {
				for i := 0; i+size < len(at); i++ {
					add(word[at[i]:at[i+size]])
				}
			}
		}
		word, at = word[:0], at[:0]
		put(' ')
	}
	put(' ')
	for _, r := range norm.NFKC.String(text) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			put(unicode.ToLower(r))
		} else {
			flush()
		}
	}
	flush()
}
