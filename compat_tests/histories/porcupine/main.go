// Porcupine reads operations of registers, one JSON object a line, and prints "legal", "illegal" or "unknown" and the
// name of each register. An operation whose "completed" is null may take effect at any later time, or never.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const searchLimit = 60 * time.Second

type operation struct {
	Register  string `json:"register"`
	Process   int    `json:"process"`
	F         string `json:"f"`
	Value     *int64 `json:"value"`
	Invoked   int64  `json:"invoked"`
	Completed *int64 `json:"completed"`
}

// A register's value; isSet is false before the first write.
type state struct {
	isSet bool
	value int64
}

func stepOf(before state, input operation) (bool, state) {
	after := before
	if input.Value != nil {
		after = state{true, *input.Value}
	}
	switch input.F {
	case "read":
		return (input.Value == nil && !before.isSet) || (input.Value != nil && before == after), before
	case "rise":
		return !before.isSet || after.value > before.value, after
	default:
		return true, after
	}
}

func main() {
	registers := map[string][]porcupine.Operation{}
	lines := bufio.NewReader(os.Stdin)
	decoder := json.NewDecoder(lines)
	for decoder.More() {
		var read operation
		if err := decoder.Decode(&read); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		end := int64(math.MaxInt64)
		if read.Completed != nil {
			end = *read.Completed
		}
		registers[read.Register] = append(registers[read.Register], porcupine.Operation{
			ClientId: read.Process, Input: read, Call: read.Invoked, Output: nil, Return: end,
		})
	}
	model := porcupine.Model{
		Init: func() interface{} { return state{} },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			return stepOf(before.(state), input.(operation))
		},
	}
	words := map[porcupine.CheckResult]string{porcupine.Ok: "legal", porcupine.Illegal: "illegal"}
	for name, operations := range registers {
		word, isDecided := words[porcupine.CheckOperationsTimeout(model, operations, searchLimit)]
		if !isDecided {
			word = "unknown"
		}
		fmt.Println(word, name)
	}
}
