package main

import (
	"strconv"
	"strings"

	guest "github.com/wasmtools/wasmtools/guest-sdk"
)

func itoa[T int | int64](n T) string { return strconv.FormatInt(int64(n), 10) }

// count gives "1 line", "2 lines".
func count[T int | int64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return itoa(n) + " " + thing + "s"
}

// stamp gives a time of Unix milliseconds in UTC, as 2026-01-02T03:04:05Z. The
// date is that of the proleptic Gregorian calendar, counted in eras of 400
// years that begin in March, so that the leap day is the last of its year.
func stamp(ms int64) string {
	sec := floorDiv(ms, 1000)
	days := floorDiv(sec, 86400)
	sec -= days * 86400
	days += 719468 // from 0000-03-01 to 1970-01-01
	era := floorDiv(days, 146097)
	doe := days - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day := doy - (153*mp+2)/5 + 1
	month := mp + 3
	year := yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return digits(year, 4) + "-" + digits(month, 2) + "-" + digits(day, 2) + "T" +
		digits(sec/3600, 2) + ":" + digits(sec/60%60, 2) + ":" + digits(sec%60, 2) + "Z"
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func digits(n int64, width int) string {
	s := itoa(n)
	if len(s) < width {
		s = strings.Repeat("0", width-len(s)) + s
	}
	return s
}

// skippedText says what a listing or a search left out, or "".
func skippedText(s guest.Skipped) string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, itoa(n)+" "+what)
		}
	}
	add(s.Ignored, "ignored by git")
	add(s.Binary, "binary")
	add(s.TooLarge, "too large")
	add(s.Unreadable, "unreadable")
	add(s.OtherFS, "on another file system")
	add(s.Denied, "denied")
	add(s.Protected, "protected")
	if parts == nil {
		return ""
	}
	return "[skipped: " + strings.Join(parts, ", ") + "]\n"
}

// skippedDetail is the same for programs; missing if nothing was left out.
func skippedDetail(s guest.Skipped) guest.Value {
	if f := s.Fields(); f != nil {
		return guest.Object(f...)
	}
	return guest.Value{}
}
