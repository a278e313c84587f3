package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// Error is a failure that a model or a caller is meant to read: a code, what
// happened in words, and the next move. Packages below the surfaces return it
// wherever the cause is the request and not the runtime.
//
// Text and Next never hold an absolute path of the host; paths stand as they
// were asked for.
type Error struct {
	Code    Code
	Path    string         // the requested path, if the failure is about one
	Text    string         // what happened; lower case, no full stop
	Next    string         // the next move; empty means the code's own
	Details map[string]any // machine-readable extras (line numbers, counts); JSON-encodable
	Err     error          // the cause, for logs and errors.Is; never shown to a model
}

// Errorf makes an Error with a formatted text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// PathErrorf makes an Error about path.
func PathErrorf(code Code, path, format string, args ...any) *Error {
	return &Error{Code: code, Path: path, Text: fmt.Sprintf(format, args...)}
}

// WithNext sets the next move and returns e.
func (e *Error) WithNext(format string, args ...any) *Error {
	e.Next = fmt.Sprintf(format, args...)
	return e
}

// With adds one detail and returns e.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// Because records the cause and returns e.
func (e *Error) Because(err error) *Error {
	e.Err = err
	return e
}

// Error gives the form that models and people read: code, path, fact, next move.
func (e *Error) Error() string {
	s := string(e.Code) + ": "
	if e.Path != "" {
		s += QuotePath(e.Path) + ": "
	}
	text := e.Text
	if text == "" {
		text = e.Code.Info().Meaning
	}
	next := e.Next
	if next == "" {
		next = e.Code.Info().Next
	}
	return s + text + "; " + next
}

func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Code: c}) true for any Error with that code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Path == "" && t.Text == "" && t.Err == nil
}

// CodeOf returns the code of err: its own if it is an [Error], timeout or
// cancelled for the context errors, internal for anything else, "" for nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Internal
}

// AsError turns any error into an [Error]. An error that is none already
// becomes timeout, cancelled or internal, with its own text left out: it was
// not written for a model and may name host paths.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	code := CodeOf(err)
	return (&Error{Code: code, Text: code.Info().Meaning}).Because(err)
}

// ErrorResult is the result that stands for err.
func ErrorResult(err error) Result {
	e := AsError(err)
	return Result{
		Content: []Content{Text(e.Error())},
		IsError: true,
		Code:    e.Code,
		Details: maps.Clone(e.Details),
	}
}
