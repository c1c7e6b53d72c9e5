// franz-go with pipes: answers each line "produce ADDRESS" or "consume ADDRESS" with a line.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if words[0] == "produce" {
			fmt.Println(produce(words[1]))
		} else {
			fmt.Println(consume(words[1]))
		}
	}
}

// The value of the record after which a consumer commits and ends.
const last = "the last order"

func backoff(int) time.Duration { return 20 * time.Millisecond }

func produce(address string) string {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("franz-go"), kgo.AllowAutoTopicCreation(),
		kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(20*time.Millisecond), kgo.RecordDeliveryTimeout(120*time.Second))
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	record := &kgo.Record{Topic: "orders", Value: []byte("order 1")}
	err = client.ProduceSync(context.Background(), record).FirstErr()
	var refused *kerr.Error
	if errors.As(err, &refused) {
		return refused.Message
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func consume(address string) string {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("franz-go"), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100*time.Millisecond), kgo.RetryBackoffFn(backoff), kgo.MetadataMinAge(20*time.Millisecond))
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	for seen := false; !seen; {
		if ctx.Err() != nil {
			return "nothing"
		}
		client.PollFetches(ctx).EachRecord(func(record *kgo.Record) { seen = seen || string(record.Value) == last })
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		return err.Error()
	}
	return "ok"
}
