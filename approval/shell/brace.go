package shell

import (
	"strconv"
	"strings"
)

// maxOpen bounds the brace expressions of one word: each is looked for to the
// word's end.
const maxOpen = 64

// braces expands the brace expressions of a word, as bash does before anything
// else. What it returns is printed literally, so where it and bash disagree,
// what was judged still is what runs. It fails if there are too many words.
func braces(as []atom) ([][]atom, bool) {
	open := 0
	for _, a := range as {
		if bare(a, '{') {
			open++
		}
	}
	if open > maxOpen {
		return nil, false
	}
	lists := [][]atom{nil}
	for i := 0; i < len(as); {
		if !bare(as[i], '{') {
			for k := range lists {
				lists[k] = append(lists[k], as[i])
			}
			i++
			continue
		}
		items, end := braceItems(as, i)
		if items == nil {
			for k := range lists {
				lists[k] = append(lists[k], as[i])
			}
			i++
			continue
		}
		var tails [][]atom
		for _, it := range items {
			sub, ok := braces(it)
			if !ok || len(tails)+len(sub) > maxBraces {
				return nil, false
			}
			tails = append(tails, sub...)
		}
		if len(lists)*len(tails) > maxBraces {
			return nil, false
		}
		next := make([][]atom, 0, len(lists)*len(tails))
		for _, l := range lists {
			for _, t := range tails {
				next = append(next, append(append(make([]atom, 0, len(l)+len(t)), l...), t...))
			}
		}
		lists, i = next, end
	}
	return lists, true
}

// braceItems splits the brace expression that begins at as[at] and returns the
// position after it, or nil if none begins there.
func braceItems(as []atom, at int) (items [][]atom, end int) {
	depth, start := 0, at+1
	for i := at; i < len(as); i++ {
		switch {
		case bare(as[i], '{'):
			depth++
		case bare(as[i], ','):
			if depth == 1 {
				items = append(items, as[start:i])
				start = i + 1
			}
		case bare(as[i], '}'):
			if depth--; depth > 0 {
				continue
			}
			if items != nil {
				return append(items, as[start:i]), i + 1
			}
			return sequence(as[at+1 : i]), i + 1
		}
	}
	return nil, 0
}

// sequence expands 1..5, 01..10..2 and a..e.
func sequence(as []atom) [][]atom {
	s := make([]byte, len(as))
	for i, a := range as {
		if a.hole != nil || a.quoted {
			return nil
		}
		s[i] = a.c
	}
	parts := strings.Split(string(s), "..")
	if len(parts) != 2 && len(parts) != 3 {
		return nil
	}
	step := 1
	if len(parts) == 3 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < -maxBraces || n > maxBraces {
			return nil
		}
		if step = max(n, -n); step == 0 {
			step = 1
		}
	}
	lo, err1 := strconv.Atoi(parts[0])
	hi, err2 := strconv.Atoi(parts[1])
	letters := len(parts[0]) == 1 && len(parts[1]) == 1 && letter(parts[0][0]) && letter(parts[1][0])
	if letters {
		lo, hi = int(parts[0][0]), int(parts[1][0])
	} else if err1 != nil || err2 != nil || len(parts[0]) > 9 || len(parts[1]) > 9 {
		return nil
	}
	width := 0
	if !letters && (padded(parts[0]) || padded(parts[1])) {
		width = max(len(parts[0]), len(parts[1]))
	}
	if max(hi-lo, lo-hi)/step >= maxBraces {
		// More words than are followed: two lists that the caller multiplies
		// would hide it, so say it with more items than are allowed.
		return make([][]atom, maxBraces+1)
	}
	var out [][]atom
	for n := lo; ; {
		text := string(rune(n))
		if !letters {
			text = strconv.Itoa(n)
			for len(text) < width {
				if n < 0 {
					text = "-0" + text[1:]
				} else {
					text = "0" + text
				}
			}
		}
		var item []atom
		for i := range len(text) {
			item = append(item, atom{c: text[i], quoted: true})
		}
		out = append(out, item)
		if lo <= hi {
			n += step
		} else {
			n -= step
		}
		if lo <= hi && n > hi || lo > hi && n < hi {
			return out
		}
	}
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// padded reports whether a number is written with leading zeros.
func padded(s string) bool {
	s = strings.TrimPrefix(s, "-")
	return len(s) > 1 && s[0] == '0'
}
