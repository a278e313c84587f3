package budget

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wasmtools/wasmtools/internal/jsonsize"
	"github.com/wasmtools/wasmtools/tool"
)

// Limits of [Compact], in bytes of JSON but for the rounds.
const (
	RecentRounds = 5         // the last rounds stay as they are
	Compactable  = 2 << 10   // from which a result can be replaced
	Watermark    = 256 << 10 // beyond which results are replaced at all
	LeastSaved   = 256 << 10 // or nothing is: each change costs a prompt cache
)

// Round is one step of a conversation with the results of its calls.
type Round struct{ Results []Past }

// Past is a result as it stands in a conversation.
type Past struct {
	Tool      string
	Arguments json.RawMessage
	Text      string // all its text blocks, joined
	IsError   bool
	Code      tool.Code
	Sensitive bool // is kept nowhere, so it stays

	// Control says that the result steers what comes after it, such as a list of
	// things to do, a plan or an answer of a person: it stays.
	Control bool
}

// Change replaces the text of one result by a receipt.
type Change struct {
	Round, Result int // indexes into what Compact was given
	Receipt       string
	Kept          Kept
}

// Compact says which results of a conversation, the oldest round first, are to
// be replaced by receipts, so that what comes after them has room. It keeps
// their texts with k and changes nothing of what it is given.
//
// Nothing is replaced before all texts together pass [Watermark], and only if
// that saves [LeastSaved]. Results of the last [RecentRounds] rounds stay, and
// so do short ones, sensitive ones, and those of control tools. The caller has
// made sure that the model can read artifacts.
//
// An error joins why some results could not be kept; they stay, and the changes
// beside it hold all the same.
func Compact(rounds []Round, k Keeper) ([]Change, error) {
	var changes []Change
	var errs []error
	for _, at := range compactable(rounds) {
		past := rounds[at.Round].Results[at.Result]
		c := keeping{Call: Call{Tool: past.Tool, Arguments: past.Arguments, Readable: true, Keeper: k}, isError: past.IsError, code: past.Code}
		ref, err := c.keep("an earlier result of "+past.Tool, "text/plain; charset=utf-8", past.Text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the result %d of round %d: %w", at.Result, at.Round, err))
			continue
		}
		at.Kept, at.Receipt = ref, "[an earlier result, taken out to make room]\n"+c.receipt(ref)
		changes = append(changes, at)
	}
	return changes, errors.Join(errs...)
}

// receiptRoom is more than a receipt takes, so that what is saved is not less
// than was reckoned.
const receiptRoom = 2 << 10

// compactable chooses what is replaced.
func compactable(rounds []Round) []Change {
	var chosen []Change
	total, saved := 0, 0
	for i, r := range rounds {
		for j, past := range r.Results {
			size := jsonsize.Len(past.Text)
			total += size
			if i >= len(rounds)-RecentRounds || size < Compactable || past.Sensitive || past.Control {
				continue
			}
			chosen = append(chosen, Change{Round: i, Result: j})
			saved += max(size-receiptRoom, 0)
		}
	}
	if total <= Watermark || saved < LeastSaved {
		return nil
	}
	return chosen
}
